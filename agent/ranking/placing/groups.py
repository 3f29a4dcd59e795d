"""Decision groups: named ones take decided clusters in order, the rest follows, and each is cut to its length."""

from collections.abc import Mapping, Sequence

from agent.ranking.placing import predicates
from agent.ranking.placing.inputs import ManagedCluster
from agent.ranking.placing.outcome import Decision, DecisionGroup
from agent.ranking.placing.spec import GroupStrategy


def divide(
    strategy: GroupStrategy, decisions: Sequence[Decision], clusters: Mapping[str, ManagedCluster]
) -> tuple[DecisionGroup, ...]:
    """Divide the decisions into groups and keep their order; one empty group if there are none."""
    length = max(strategy.length(len(decisions)), 1)
    rest, found = list(decisions), []
    for named in strategy.named:
        taken = [each for each in rest if predicates.takes(named.clusters, clusters[each.cluster])]
        names = {each.cluster for each in taken}
        rest = [each for each in rest if each.cluster not in names]
        found += _cut(named.name, taken, length)
    found += _cut("", rest, length)
    return tuple(found) or (DecisionGroup("", ()),)


def _cut(name: str, decisions: Sequence[Decision], length: int) -> list[DecisionGroup]:
    starts = range(0, len(decisions), max(1, length))
    return [DecisionGroup(name, tuple(decisions[start : start + length])) for start in starts]
