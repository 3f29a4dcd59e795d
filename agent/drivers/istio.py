"""Driver `istio`: a mesh over several clusters takes Services of one name for one, and finds their endpoints itself."""

import contextlib
from typing import ClassVar

from agent.api.kinds import SECRETS
from agent.clusters.port import Port
from agent.drivers.driver import Pair, Place
from agent.drivers.none_and_external import Nothing
from agent.kube.client import METADATA_LIST
from agent.kube.errors import Forbidden
from agent.kube.store import Object
from agent.model.servicelinks import UNVERIFIED, Finding

_GROUP = "networking.istio.io"
_REMOTE = "istio/multiCluster=true"
"""Label of the Secrets that istiod uses to read other clusters."""
_ANNOTATION_CLUSTER = "networking.istio.io/cluster"
"""Annotation of these Secrets: istiod's name for the cluster."""


class Istio(Nothing):
    """Writes nothing: mirrors of ours would count twice."""

    name: ClassVar[str] = "istio"
    reason: ClassVar[str] = "Istio"

    def detect(self, pair: Pair) -> bool:
        """Return whether the local istiod reads the other cluster, and both clusters serve Istio's kinds."""
        return pair.both_serve(_GROUP) and self.name in pair.meshes

    async def connected(self, place: Place, source: str) -> Finding:
        """Return Unverified: Istio's proxies do not publish the state of endpoints."""
        return Finding("Unknown", UNVERIFIED, "Istio does not tell whether its clusters reach each other")


async def clusters_read(port: Port, namespace: str) -> frozenset[str]:
    """Return istiod's names of clusters with remote Secrets; reads only metadata. Raises KubeError."""
    with contextlib.suppress(Forbidden):
        _, found = await port.list_raw(SECRETS, namespace, labels=_REMOTE, accept=METADATA_LIST)
        called = (Object(SECRETS, bytes(each)).annotations.get(_ANNOTATION_CLUSTER, "") for each in found)
        return frozenset(filter(None, called))
    return frozenset()
