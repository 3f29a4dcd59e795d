"""Names of the Multi-Cluster Services API, and of what our implementation of it makes."""

import hashlib
import re

from agent.api.names.prefixes import SHORT_PREFIX

LABEL_MCS_SERVICE = "multicluster.kubernetes.io/service-name"
"""On EndpointSlices, as the API has it: the Service that is exported; with us on a derived Service of a cluster that
exports it, too, for slices have the labels of their Service."""
LABEL_SOURCE_CLUSTER = "multicluster.kubernetes.io/source-cluster"
"""On the same: the cluster whose endpoints they are."""
MCS_LABELS = (LABEL_MCS_SERVICE, LABEL_SOURCE_CLUSTER)

LABEL_DERIVED = SHORT_PREFIX + "derived-from"
"""On a derived Service in the cluster of the agent that makes it: the Service that is exported."""
ANNOTATION_EXPORTED_IN = SHORT_PREFIX + "exported-in"
"""On the same: JSON of what other clusters export, by virtual node: name of the cluster, selector, target ports."""

_HASH_LENGTH = 10
_DERIVED = re.compile(rf"mcs-[0-9a-f]{{{_HASH_LENGTH}}}")


def derived(service: str) -> str:
    """Name of the derived Service that has the address of a ServiceImport."""
    return f"mcs-{hashlib.sha256(service.encode()).hexdigest()[:_HASH_LENGTH]}"


def is_derived(name: str) -> bool:
    """Whether a Service is called like a derived one."""
    return _DERIVED.fullmatch(name) is not None


def cluster(name: str) -> str:
    """What a cluster is called in ServiceImports, where its name has to be a DNS label."""
    return name.replace(".", "-").lower()[:63].strip("-")
