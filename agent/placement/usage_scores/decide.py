"""Usage scores of a cluster from the summaries of its targets. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from agent.model.addonscore import Statement
from agent.model.measured import read_used
from agent.ranking.placing.usage_scores import usage_scores
from agent.ranking.summary_shapes import told_shapes

NOT_TOLD = Statement(
    {},
    0.0,
    "False",
    "NotTold",
    "its agent does not tell what is free on its nodes: have it tell (agent.summaryDetail: full in its chart's values,"
    " and the right to read pods)",
)
_NO_TARGET = "no Target leads to it any more"


@dataclass(frozen=True)
class Told:
    """State and summary of one target of a cluster."""

    state: Literal["ready", "unknown", "lost"]
    """`unknown` while the target connects: the last scores stay until they expire."""
    message: str = ""
    """Reason why the target is lost; empty otherwise."""
    summary: Mapping[str, str] = field(default_factory=dict)
    """Annotations of its ClusterSummary."""


def decide(targets: Sequence[Told], maxima: Mapping[str, int], validity: float) -> Statement | None:
    """Return the scores of a cluster; None to keep the present ones. A cluster may have several targets."""
    ready = next((told for told in targets if told.state == "ready"), None)
    if ready is not None:
        # Scores do not depend on node labels.
        scores = usage_scores(told_shapes(ready.summary, {}), read_used(ready.summary), maxima)
        return Statement(scores, validity, message="as its agent tells") if scores else NOT_TOLD
    if any(told.state == "unknown" for told in targets):
        return None
    message = targets[0].message if targets else _NO_TARGET
    return Statement({}, validity, "False", "TargetLost", message)
