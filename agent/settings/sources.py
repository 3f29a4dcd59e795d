"""Settings about source clusters: their rights here, and what they are told."""

from dataclasses import dataclass

from agent.api import labels
from agent.base.flags import flag, repeated
from agent.base.forms import DURATION, SWITCH, TEXT, form, one_of
from agent.model.summary import DETAILS, Detail


def _is_property(text: str) -> bool:
    key, equals, value = text.partition("=")
    return bool(equals) and labels.is_key(key) and labels.is_value(value)


_PROPERTY = form("KEY=VALUE", _is_property, "must be KEY=VALUE with a valid key and value of a label")


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Sources."""

    source_controller: bool = flag(
        SWITCH, "true", "reconcile Sources and ClusterSources into service accounts and bindings"
    )
    source_role: str = flag(TEXT, "multicluster-scheduler-source", "ClusterRole that Sources are bound to")
    summary_viewer_role: str = flag(
        TEXT, "multicluster-scheduler-cluster-summary-viewer", "ClusterRole that lets Sources read the ClusterSummary"
    )
    summary_detail: Detail = flag(
        one_of(*DETAILS),
        "full",
        "what Sources are told of this cluster's nodes: full (sums, common labels, node shapes and what is free),"
        " minimal (as Admiralty: sums, common labels) or sums",
    )
    cluster_property: tuple[str, ...] = repeated(
        _PROPERTY, "KEY=VALUE, a label of virtual nodes that stand for this cluster"
    )
    discovery_interval: float = flag(DURATION, "5m", "pause between looks which kinds of cluster properties are served")
