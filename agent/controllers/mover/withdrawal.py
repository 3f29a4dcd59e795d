"""Whether Services lead to a pod: to a replacement before the old one is withdrawn, to that no more before it ends.

What is seen begins to count when it is seen first: who has just begun to lead waits as long once more. A cluster that
has just fallen silent is waited for; where nothing can be seen, it is given as long to follow as the pause takes.
"""

import time
from collections.abc import Iterable, Mapping
from typing import Any

from agent.api import names
from agent.api.names import moves
from agent.clusters.agenthealth import AgentState
from agent.clusters.deps import Deps
from agent.clusters.selecting import SelectingServices
from agent.drivers.reach import EndpointReach, Reach
from agent.kube.store import Object
from agent.model import replacement
from agent.model.pattern import InvalidPattern
from agent.model.relabel import relabel
from agent.model.service import users_selector

_PATIENCE_SECONDS = 30.0
"""How much longer than usual a target may take to take labels off that has no agent which is known to do that."""
_LAG_SECONDS = 300.0
"""The same where it has one, or leads there no more, and others do still: then something else keeps them from it."""


class Withdrawal:
    """What Services do with pods that move."""

    def __init__(self, deps: Deps, seconds: float) -> None:
        self._deps = deps
        self._seconds = seconds
        self.reach = EndpointReach(deps)
        self._services = SelectingServices(deps.local)
        self._since: dict[str, tuple[object, float]] = {}
        deps.proxies.informer.subscribe(self._pod_changed)

    def forget(self, pods: list[Object]) -> None:
        """None of these pods moves any more."""
        for pod in pods:
            for about in ("mark", "reach", "known"):
                self._since.pop(f"{about} {pod.uid}", None)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        """One that has moved is gone before its owner is done with the others."""
        if old is not None and (new is None or new.uid != old.uid):
            self.forget([old])

    def keys(self, pod: Object) -> frozenset[str]:
        """Labels of a pod by which Services select it."""
        return _keys(self._services.of(pod.namespace, pod.labels))

    def to_withdraw(self, pod: Object) -> frozenset[str]:
        """Those by which Services do that lead to others, too: by others nobody would be answered in the meantime."""
        return _keys(self.reach.with_others(pod.decode()))

    def is_announced(self, pod: Object) -> bool:
        """Whether every cluster that shares a Service that selects a replacement has its address."""
        if not self.keys(pod):
            return True
        reach = self.reach.of(pod.decode())
        since = self._for(f"known {pod.uid}", (bool(reach.missing), reach.silent))
        return not (reach.missing or reach.silent) and (not reach.unseen or since >= self._seconds)

    def is_settled(self, pod: Object, annotations: Mapping[str, str]) -> bool:
        """Whether all that lead to a pod have had their time to follow its marks, or that it has none."""
        marked = moves.ANNOTATION_WITHDRAWN in annotations or moves.ANNOTATION_REPLACED_BY in annotations
        keys = replacement.withdrawn(annotations) if marked else self.keys(pod)
        if not keys:
            return True
        raw = pod.decode()
        reach = self.reach.of(raw, keys if marked else ())
        labelled = self._is_labelled(pod, annotations, keys)
        follows = not (labelled or reach.known) if marked else labelled and not reach.missing
        done = follows and not reach.silent
        at_all = self._for(f"mark {pod.uid}", marked)
        followed = self._for(f"reach {pod.uid}", (marked, done))
        pause = self._seconds * (2 if reach.unseen else 1)
        return (done and followed >= pause) or at_all >= self._seconds + self._patience(pod, raw, reach)

    def _patience(self, pod: Object, raw: Mapping[str, Any], reach: Reach) -> float:
        target = self._deps.targets.by_node(pod.node_name)
        able = target is not None and target.agent is not None and target.agent.state is AgentState.READY
        return _LAG_SECONDS if able or not self.reach.is_known_at_home(raw, reach) else _PATIENCE_SECONDS

    def _is_labelled(self, pod: Object, annotations: Mapping[str, str], keys: frozenset[str]) -> bool:
        """Whether what a target knows of the pod has the labels by which Services select it."""
        labels = {key: value for key, value in pod.labels.items() if key in keys}
        try:
            wanted = relabel(labels, names.annotation(annotations, names.NO_PREFIX_REGEXP))
        except InvalidPattern:
            return False
        placed = [each.chaperon.labels for each in self._deps.chaperons.of(pod.key) if each.is_of(pod)]
        return any(wanted.items() <= each.items() for each in placed)

    def _for(self, about: str, state: object) -> float:
        """For how many seconds something has been as it is now."""
        now = time.monotonic()
        before = self._since.get(about)
        if before is None or before[0] != state:
            self._since[about] = (state, now)
            return 0.0
        return now - before[1]


def _keys(services: Iterable[Object]) -> frozenset[str]:
    return frozenset(key for service in services for key in users_selector(service.decode()))
