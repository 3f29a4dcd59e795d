"""Which clusters have gateways, by their ClusterSummaries. The last result remains until there is a new one."""

from collections.abc import Hashable, Mapping
from typing import Any

from agent.api.conditions import condition_of
from agent.api.names.links import BY_GATEWAY, GATEWAY_USABLE, SERVICES_SHARED
from agent.base.grace import ABSENT_SECONDS, GracePeriods
from agent.model import gatewaytold


class GatewayReports:
    """Gateway reports of clusters. A key is any hashable value."""

    def __init__(self, grace: float = ABSENT_SECONDS) -> None:
        """:param grace: seconds for which a summary without gateways may be an incomplete one"""
        self._grace = GracePeriods(grace)
        self._last: dict[Hashable, bool] = {}

    def has(self, key: Hashable, annotations: Mapping[str, str] | None, now: float, *, before: bool) -> bool:
        """Return whether a cluster has gateways.

        :param annotations: of its summary, None while it is missing or unreadable
        :param before: whether it had gateways before this process started
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
        """Return the seconds until the result for a cluster changes if its summary does not; None if it stays."""
        left = self._grace.left(key, now) if self._grace.is_running(key) else 0.0
        return left or None

    def forget(self, key: Hashable) -> None:
        """Forget a cluster: its Target was deleted, or now names another cluster."""
        self._grace.end(key)
        self._last.pop(key, None)


def had_gateways(target: Mapping[str, Any]) -> bool:
    """Return whether a target had gateways by the last result, as its conditions report."""
    usable = condition_of(target, GATEWAY_USABLE) or {}
    shared = condition_of(target, SERVICES_SHARED) or {}
    by_gateway = (shared.get("status"), shared.get("reason")) == ("True", BY_GATEWAY)
    return by_gateway or usable.get("status") == "True" or usable.get("reason") == "Forbidden"
