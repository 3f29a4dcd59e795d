"""Properties of this cluster: ClusterProperties, ClusterClaims of Open Cluster Management, and the agent's settings.

A kind is watched only while the API server serves it and the agent may read it, which is checked every few minutes.
Any served version of ClusterProperties is read, since all have the same content.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from agent.api.kinds import CLUSTER_CLAIMS, CLUSTER_PROPERTIES, Kind
from agent.api.names.ocm import LABEL_SPOKE_ONLY
from agent.clusters.cluster import Cluster
from agent.kube.errors import UNDECODABLE, KubeError, StatusError
from agent.model import clusterclaims
from agent.targets.summary.decide import properties

if TYPE_CHECKING:
    from agent.kube.informer import Informer
    from agent.kube.store import Object

KINDS = {
    CLUSTER_CLAIMS: (CLUSTER_CLAIMS,),
    CLUSTER_PROPERTIES: tuple(replace(CLUSTER_PROPERTIES, version=each) for each in ("v1", "v1beta1", "v1alpha1")),
}
"""Each kind with its versions, the newest first. A ClusterProperty wins over a ClusterClaim of the same name, and
settings over both."""


class _Property(msgspec.Struct):
    class Spec(msgspec.Struct):
        value: str = ""

    spec: Spec = msgspec.field(default_factory=Spec)


_decoder = msgspec.json.Decoder(_Property)


class Properties:
    """Reads the properties. Calls `changed` if one of them may have changed."""

    def __init__(self, local: Cluster, settings: tuple[str, ...], changed: Callable[[], None]) -> None:
        self._local = local
        self._settings = dict(pair.split("=", 1) for pair in settings)
        self._changed = changed
        self._informers: dict[Kind, Informer] = {}

    def read(self) -> dict[str, str]:
        """Return all properties that can be labels."""
        return properties([*self._told(), self._settings])

    def claims(self) -> clusterclaims.Told:
        """Return all properties that sources may read, with any value, in the format of ManagedClusters."""
        return clusterclaims.write([*self._told(hidden=LABEL_SPOKE_ONLY), self._settings])

    def _told(self, hidden: str = "") -> list[dict[str, str]]:
        """Return the properties of each kind, without objects that have the label `hidden`."""
        stores = [self._informers[kind].store for kind in KINDS if kind in self._informers]
        return [
            {obj.name: value for obj in store if hidden not in obj.labels and (value := _value(obj)) is not None}
            for store in stores
        ]

    async def discover(self) -> None:
        """Start watches of kinds that are served, and stop those of other kinds."""
        for kind, versions in KINDS.items():
            if kind in self._informers and isinstance(self._informers[kind].error, StatusError):
                self._local.informers.drop(self._informers.pop(kind))
                self._changed()
            if kind not in self._informers and (served := await self._served(versions)):
                self._informers[kind] = self._local.informer(served)
                self._informers[kind].subscribe(lambda old, new: self._changed())

    @property
    def settled(self) -> bool:
        """Whether all watched kinds have been read. Before that, existing labels would be removed."""
        return all(informer.synced.is_set() for informer in self._informers.values())

    async def _served(self, versions: tuple[Kind, ...]) -> Kind | None:
        for kind in versions:
            if await self._readable(kind):
                return kind
        return None

    async def _readable(self, kind: Kind) -> bool:
        try:
            await self._local.client.session.request("GET", kind.path(), params={"limit": "1"}, resource=kind.plural)
        except KubeError:
            return False
        return True


def _value(obj: "Object") -> str | None:
    try:
        return _decoder.decode(obj.raw).spec.value
    except UNDECODABLE:
        # Not a string, so no label either.
        return None
