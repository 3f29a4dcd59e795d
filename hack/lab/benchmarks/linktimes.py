"""When ServiceLinks come to work: one watch, read by the local clock."""

import time
from collections.abc import Callable
from typing import Any

from agent.api.conditions import find_condition
from agent.api.kinds import SERVICE_LINKS
from agent.kube.client import Client
from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from agent.model.servicelinks import PROGRAMMED

Raw = dict[str, Any]


class LinkTimes:
    """Seconds of the monotonic clock at which each link was first seen Programmed, and one pair of clusters ready.

    :param wanted: of how many pairs of clusters the link of a Service tells once all endpoints are known
    """

    def __init__(self, client: Client, wanted: Callable[[Key], int], consumer: str, source: str) -> None:
        self.informer = Informer(client, SERVICE_LINKS)
        self.programmed: dict[Key, float] = {}
        self.paired: dict[Key, float] = {}
        self._wanted = wanted
        self._pair = (consumer, source)
        self.informer.subscribe(self._changed)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            return
        link, now = new.decode(), time.monotonic()
        if is_programmed(link, self._wanted(new.key)):
            self.programmed.setdefault(new.key, now)
        if reaches(link, *self._pair):
            self.paired.setdefault(new.key, now)


def is_programmed(link: Raw, pairs: int) -> bool:
    """Whether all is written that a link takes, between so many pairs of clusters."""
    status = link.get("status") or {}
    said = find_condition(status.get("conditions"), PROGRAMMED) or {}
    return said.get("status") == "True" and sum(len(row["from"]) for row in status.get("clusters") or ()) == pairs


def reaches(link: Raw, consumer: str, source: str) -> bool:
    """Whether callers in one cluster reach endpoints in another, whatever is with all others."""
    rows = (link.get("status") or {}).get("clusters") or ()
    return any(row["cluster"] == consumer and source in row["from"] and row["ready"] == "True" for row in rows)
