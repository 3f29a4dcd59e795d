"""Which clusters have gateways, by their ClusterSummaries: the last verdict stands while there is no new one."""

from collections.abc import Hashable, Mapping
from typing import Any

from agent.api.conditions import condition_of
from agent.api.names.links import BY_GATEWAY, GATEWAY_USABLE
from agent.base.grace import ABSENT_SECONDS, GracePeriods
from agent.model import gatewaytold


class GatewayReports:
    """Clusters are named by any key."""

    def __init__(self, grace: float = ABSENT_SECONDS) -> None:
        """:param grace: seconds for which a summary without gateways may be one that is being written"""
        self._grace = GracePeriods(grace)
        self._last: dict[Hashable, bool] = {}

    def has(self, key: Hashable, annotations: Mapping[str, str] | None, now: float, *, before: bool) -> bool:
        """Whether a cluster has gateways.

        :param annotations: of its summary, None while that is missing or cannot be read
        :param before: whether it had any before this process began
        """
        had = self._last.get(key, before)
        if annotations is not None and gatewaytold.usable(annotations):
            self._grace.end(key)
            has = True
        elif annotations is None or gatewaytold.flaw(annotations):
            has = had
        else:
            has = had and self._grace.left(key, now) > 0
        self._last[key] = has
        return has

    def left(self, key: Hashable, now: float) -> float | None:
        """Return seconds until the verdict on a cluster changes unless its summary does; None if it does not."""
        left = self._grace.left(key, now) if self._grace.is_running(key) else 0.0
        return left or None

    def forget(self, key: Hashable) -> None:
        """A Target is no more, or stands for another cluster."""
        self._grace.end(key)
        self._last.pop(key, None)


def had_gateways(target: Mapping[str, Any]) -> bool:
    """Whether a target had gateways by the last verdict, as its conditions say."""
    usable = condition_of(target, GATEWAY_USABLE) or {}
    shared = condition_of(target, "ServicesShared") or {}
    by_gateway = (shared.get("status"), shared.get("reason")) == ("True", BY_GATEWAY)
    return by_gateway or usable.get("status") == "True" or usable.get("reason") == "Forbidden"
