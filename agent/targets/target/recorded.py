"""Which cluster each Target was connected to: in its status, and known to this process before that is written."""

from dataclasses import dataclass
from typing import Any

from agent.api import names
from agent.clusters.identity import Expected
from agent.clusters.target import Target
from agent.kube.store import Key

Raw = dict[str, Any]

FIELD = "clusterUID"
"""Of a Target's status."""


@dataclass
class _Known:
    target: str
    """UID of the Target: another one of its name begins anew."""
    cluster: str
    written: bool = False


class Recorded:
    """The UID of the cluster that each Target was connected to, also where its status has lost it or cannot hold it."""

    def __init__(self) -> None:
        self._known: dict[Key, _Known] = {}

    def expected(self, key: Key, target: Raw) -> Expected:
        """Which cluster a Target says it stands for.

        What `flotilla join` wrote counts only before the target was ready for the first time: later, somebody may have
        put another kubeconfig there before anything was recorded.
        """
        metadata = target["metadata"]
        annotations = metadata.get("annotations") or {}
        used = names.FINALIZER_DRAIN in (metadata.get("finalizers") or ())
        return Expected(
            recorded=self._cluster(key, target) or str((target.get("status") or {}).get(FIELD) or ""),
            joined="" if used else annotations.get(names.ANNOTATION_CLUSTER_UID, ""),
            accepted=names.annotation(annotations, names.ACCEPT_CLUSTER) or "",
        )

    def note(self, key: Key, target: Raw, connected: Target | None) -> Raw:
        """Take note of the cluster of a target that is ready; what of its Target's status is to be written for it."""
        if connected is None or not connected.ready or not connected.identity.uid:
            return {}
        uid = connected.identity.uid
        if self._cluster(key, target) != uid:
            self._known[key] = _Known(target["metadata"]["uid"], uid)
        told = (target.get("status") or {}).get(FIELD)
        # Where the CRD does not know the field, a second try would not help, either.
        return {} if told == uid or (not told and self._known[key].written) else {FIELD: uid}

    def written(self, key: Key, status: Raw) -> None:
        """A status has been written."""
        if FIELD in status:
            self._known[key].written = True

    def forget(self, key: Key) -> None:
        """A Target is gone."""
        self._known.pop(key, None)

    def _cluster(self, key: Key, target: Raw) -> str:
        known = self._known.get(key)
        return known.cluster if known is not None and known.target == target["metadata"]["uid"] else ""
