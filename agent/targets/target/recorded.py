"""UID of the cluster that each Target was connected to: from its status, or from memory until that is written."""

from dataclasses import dataclass
from typing import Any

from agent.api import names
from agent.clusters.identity import Expected
from agent.clusters.target import Target
from agent.kube.store import Key

Raw = dict[str, Any]

FIELD = "clusterUID"
"""Field in the status of a Target."""


@dataclass
class _Known:
    target: str
    """UID of the Target: a recreated one starts without a record."""
    cluster: str
    written: bool = False


class Recorded:
    """UIDs of the clusters that Targets were connected to, even if a status has lost it or its CRD lacks the field."""

    def __init__(self) -> None:
        self._known: dict[Key, _Known] = {}

    def expected(self, key: Key, target: Raw) -> Expected:
        """Return the cluster that a Target must be connected to.

        The annotation by `flotilla join` counts only until the target is ready for the first time. Later, a user may
        have replaced the kubeconfig before the cluster was recorded.
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
        """Record the cluster of a ready target. Return the status fields to write; empty if none."""
        if connected is None or not connected.ready or not connected.identity.uid:
            return {}
        uid = connected.identity.uid
        if self._cluster(key, target) != uid:
            self._known[key] = _Known(target["metadata"]["uid"], uid)
        told = (target.get("status") or {}).get(FIELD)
        # If the CRD lacks the field, another try would not help.
        return {} if told == uid or (not told and self._known[key].written) else {FIELD: uid}

    def written(self, key: Key, status: Raw) -> None:
        """Record that a status has been written."""
        if FIELD in status:
            self._known[key].written = True

    def forget(self, key: Key) -> None:
        """Forget a deleted Target."""
        self._known.pop(key, None)

    def _cluster(self, key: Key, target: Raw) -> str:
        known = self._known.get(key)
        return known.cluster if known is not None and known.target == target["metadata"]["uid"] else ""
