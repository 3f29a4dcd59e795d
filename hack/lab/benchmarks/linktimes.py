"""Times at which ServiceLinks start to work, from one watch and the local clock."""

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
    """Monotonic times in seconds at which each link was first observed as Programmed, and as ready for one pair.

    :param wanted: number of cluster pairs in a link's status once all endpoints are known
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
    """Return whether a link is Programmed and its status contains `pairs` pairs of clusters."""
    status = link.get("status") or {}
    said = find_condition(status.get("conditions"), PROGRAMMED) or {}
    return said.get("status") == "True" and sum(len(row["from"]) for row in status.get("clusters") or ()) == pairs


def reaches(link: Raw, consumer: str, source: str) -> bool:
    """Return whether callers in one cluster reach endpoints in another one; other pairs do not matter."""
    rows = (link.get("status") or {}).get("clusters") or ()
    return any(row["cluster"] == consumer and source in row["from"] and row["ready"] == "True" for row in rows)
