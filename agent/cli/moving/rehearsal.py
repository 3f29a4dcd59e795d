"""Rehearsal of a move of all pods of a target: each takes capacity of another target, until there is none. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from agent.cli.explaining.facts import Facts
from agent.cli.explaining.rankings import demand_of, holdings, ranked_among
from agent.kube.store import Object
from agent.moves.mover.capacity import Packing
from agent.moves.mover.groups import wanted_by
from agent.ranking.explain import explain
from agent.ranking.snapshot import PodTemplate
from agent.scheduler.cache.pod_info import PodInfos
from agent.settings import Settings


class Rehearsal:
    """Free capacity of the targets, which is assigned to one pod after the other."""

    def __init__(
        self, leaving: Sequence[Facts], nodes: Mapping[str, Object], settings: Settings, now: datetime
    ) -> None:
        """:param leaving: pods that leave their target, with their eligible targets
        :param nodes: virtual nodes by name
        """
        self._leaving = leaving
        self._settings = settings
        self._pod_infos = PodInfos()
        self._usages = holdings(leaving, self._pod_infos, now)
        self._sums = {name: Packing(node.decode(), None) for name, node in nodes.items()}
        """Total free capacity by virtual node: the only known capacity of targets that the user may not read."""

    def run(self) -> dict[str, tuple[str, str]]:
        """Return the title of the target that each pod gets, or empty with the reason why it gets none, by UID.

        Pods of the highest priority come first, and among these the largest. Raises Unexplained.
        """
        asking = [(facts, wanted_by(facts.pod)) for facts in self._leaving]
        asking.sort(key=lambda each: (-each[0].pod.priority, *_size(each[1]), each[0].pod.key))
        # All pods leave their target before any is placed in another one.
        demands = {facts.pod.uid: demand_of(facts, self._pod_infos) for facts, _ in asking}
        for uid in demands:
            self._usages.remove(uid)
        found: dict[str, tuple[str, str]] = {}
        for facts, wanted in asking:
            pod_info = demands[facts.pod.uid]
            ranking = ranked_among(facts, pod_info, self._usages, self._settings)
            full: dict[str, str] = {}
            for target in ranking.order:
                if refusal := self._take(target.node_name, wanted):
                    full[target.node_name] = refusal
                    continue
                self._usages.put(pod_info, target.node_name, assumed=True, undelegated=True)
                found[facts.pod.uid] = (target.title, "")
                break
            else:
                found[facts.pod.uid] = ("", explain(ranking, full, {}))
        return found

    def _take(self, node: str, wanted: PodTemplate | None) -> str:
        """Take the demand of a pod from a target's total; return the refusal if that is too small, else empty."""
        packing = self._sums.get(node)
        if packing is None or wanted is None:
            return ""
        refusal = packing.refusal(wanted)
        if not refusal:
            packing.take(wanted)
        return refusal


def _size(wanted: PodTemplate | None) -> tuple[int, int]:
    requests = wanted.requests if wanted is not None else {}
    return -requests.get("cpu", 0), -requests.get("memory", 0)
