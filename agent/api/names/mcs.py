"""Names of the Multi-Cluster Services API, and of the objects of Flotilla's implementation."""

import hashlib
import re

from agent.api.names.prefixes import SHORT_PREFIX

LABEL_MCS_SERVICE = "multicluster.kubernetes.io/service-name"
"""Label of EndpointSlices in the API: the exported Service. Flotilla also sets it on a derived Service of a
cluster that exports the Service, since slices inherit the labels of their Service; not on a headless one."""
LABEL_SOURCE_CLUSTER = "multicluster.kubernetes.io/source-cluster"
"""Label of these EndpointSlices: the cluster with the endpoints."""
MCS_LABELS = (LABEL_MCS_SERVICE, LABEL_SOURCE_CLUSTER)

LABEL_DERIVED = SHORT_PREFIX + "derived-from"
"""Label of a derived Service in the cluster of the agent that creates it: the exported Service."""
ANNOTATION_EXPORTED_IN = SHORT_PREFIX + "exported-in"
"""Annotation of such a Service: JSON of other clusters' exports by virtual node: cluster name, selector, target
ports."""

_HASH_LENGTH = 10
_DERIVED = re.compile(rf"mcs-[0-9a-f]{{{_HASH_LENGTH}}}")


def derived(service: str) -> str:
    """Return the name of the derived Service with the address of a ServiceImport."""
    return f"mcs-{hashlib.sha256(service.encode()).hexdigest()[:_HASH_LENGTH]}"


def is_derived(name: str) -> bool:
    """Return whether a Service has the name of a derived one."""
    return _DERIVED.fullmatch(name) is not None


def cluster(name: str) -> str:
    """Return the name of a cluster in ServiceImports. The API requires a DNS label."""
    return name.replace(".", "-").lower()[:63].strip("-")
