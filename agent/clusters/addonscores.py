"""AddOnPlacementScores of this agent in the namespaces of ManagedClusters: watched, created and kept correct."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agent.api.kinds import ADDON_PLACEMENT_SCORES
from agent.api.names.ocm import LABEL_CLUSTER_NAME, OURS
from agent.clusters.deps import Deps
from agent.clusters.managed_cluster import is_for_its_cluster
from agent.kube.errors import Forbidden, NotFound
from agent.kube.store import Object
from agent.model.addonscore import Statement, Writing, decide

AGAIN_SECONDS = 60.0
"""Seconds until a failed write is retried: no event reports a granted right."""


class CannotSay(Exception):
    """Obstacle to writing scores, with the remedy; `reason` is for a condition."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class AddOnScores:
    """Add-on scores. `changed` receives the cluster and name of a score that was changed or may be written now."""

    def __init__(self, deps: Deps, changed: Callable[[str, str], None], turned: Callable[[], None]) -> None:
        self._client = deps.local.client
        self._clock = deps.clock
        self._placement = deps.placement
        self._namespaces = deps.namespaces.informer.store
        self._watched = deps.placement.watch(ADDON_PLACEMENT_SCORES)

        def told(old: Object | None, new: Object | None) -> None:
            for obj in (new, old):
                if obj is not None:
                    changed(obj.namespace, obj.name)
                    return

        self._watched.subscribe(told, turned)

    @property
    def known(self) -> bool:
        """Whether the kind is served and has been read."""
        return self._watched.store is not None

    def ours(self) -> Iterator[tuple[str, str]]:
        """Yield cluster and name of each score that this agent has created."""
        return ((obj.namespace, obj.name) for obj in self._watched.store or () if OURS in obj.labels)

    def status(self, cluster: str, name: str) -> Mapping[str, Any]:
        """Return the current status of a score; empty if it does not exist."""
        obj = self._watched.store.get((cluster, name)) if self._watched.store is not None else None
        return (obj.decode().get("status") or {}) if obj is not None else {}

    async def say(self, cluster: str, name: str, wanted: Statement) -> Writing:
        """Write a score; create a missing one if it has scores or `made` is set.

        Raises CannotSay and KubeError.
        """
        store = self._watched.store
        if store is None:
            return Writing(None, None)
        self._check_namespace(cluster)
        obj = store.get((cluster, name))
        if obj is None:
            if not (wanted.scores or wanted.made):
                return Writing(None, None)
            obj = await self._create(cluster, name)
        elif OURS not in obj.labels:
            raise CannotSay(
                "ScoresTaken",
                f"AddOnPlacementScore {cluster}/{name} is another's, and left alone: have one of us write it, not both",
            )
        writing = decide(wanted, obj.decode().get("status") or {}, self._clock.now())
        if writing.patch is not None:
            body = {"metadata": {"resourceVersion": obj.version}, "status": writing.patch}
            with contextlib.suppress(NotFound):
                raw = await self._client.patch_raw(ADDON_PLACEMENT_SCORES, name, body, cluster, sub="status")
                self._watched.absorb(raw)
        return writing

    def _check_namespace(self, cluster: str) -> None:
        """Check that the namespace belongs to the ManagedCluster; raises CannotSay if not. A hub checks its own
        namespaces.
        """
        namespace = self._namespaces.get(("", cluster))
        if self._placement.mode == "serve" and namespace is not None and not is_for_its_cluster(namespace):
            raise CannotSay(
                "NamespaceTaken",
                f"namespace {cluster} is not for ManagedCluster {cluster}, so that no scores are written there: label"
                f" it {LABEL_CLUSTER_NAME}={cluster} if it may be",
            )

    async def _create(self, cluster: str, name: str) -> Object:
        metadata = {"name": name, "namespace": cluster, "labels": {OURS: "true"}}
        head = {"apiVersion": ADDON_PLACEMENT_SCORES.api_version, "kind": ADDON_PLACEMENT_SCORES.name}
        try:
            raw = await self._client.create_raw(ADDON_PLACEMENT_SCORES, {**head, "metadata": metadata})
        except NotFound as error:
            raise CannotSay(
                "NamespaceMissing",
                f"there is no namespace {cluster} for scores of ManagedCluster {cluster}: create it",
            ) from error
        except Forbidden as error:
            raise CannotSay(
                "Forbidden",
                "the agent may not write AddOnPlacementScores: set agent.placement.usageScores to true, for the"
                f" right, or to false ({error})",
            ) from error
        self._watched.absorb(raw)
        return Object(ADDON_PLACEMENT_SCORES, raw)
