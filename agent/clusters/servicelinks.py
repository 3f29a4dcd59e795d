"""What ServiceLinks and annotations of Services ask for, for everybody who tells clusters of endpoints."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from prometheus_client import Gauge

from agent.api.conditions import find_condition
from agent.api.kinds import SERVICE_LINKS
from agent.base.listeners import tell
from agent.base.metrics import REGISTRY
from agent.clusters.cluster import Cluster
from agent.clusters.optional_watch import Watched
from agent.kube.store import Key, Object
from agent.model.servicelinks import READY
from agent.model.servicerule import Rule, rule, service_of

_TOLD = Gauge(
    "flotilla_service_links",
    "ServiceLinks, by the status of their condition Ready.",
    ("ready",),
    registry=REGISTRY,
)


class ServiceLinks:
    """All links by their Service. Where they are not asked for, or not served, there are none."""

    def __init__(self, local: Cluster, interval: float, *, wanted: bool) -> None:
        self._wanted = wanted
        self._watched = Watched(local.port, SERVICE_LINKS, interval)
        self._links: dict[Key, dict[str, Object]] = {}
        self._rules: dict[Key, tuple[str, Rule]] = {}
        self._listeners: list[Callable[[Key], None]] = []
        self._narrowed: list[Callable[[Key], None]] = []
        self._turned: list[Callable[[], None]] = []
        self._tally = Tally()
        if wanted:
            self._watched.subscribe(self._changed, self._turn)
            self._watched.wanted(True)

    @property
    def served(self) -> bool:
        """Whether all of them have been read."""
        return self._watched.store is not None

    @property
    def known(self) -> bool:
        """Whether it is known what there is: before that nothing is concluded from what is missing."""
        return not self._wanted or self.served or bool(self._watched.refusal)

    def subscribe(self, listener: Callable[[Key], None]) -> None:
        """Call with namespace and name of a Service one of whose links changes."""
        self._listeners.append(listener)

    def on_rule(self, narrowed: Callable[[Key], None], turned: Callable[[], None]) -> None:
        """Call with the same where it asks for something else than before; `turned` when that may be so for all."""
        self._narrowed.append(narrowed)
        self._turned.append(turned)

    def of(self, service: Key) -> list[Object]:
        """The links of a Service."""
        return list(self._links.get(service, {}).values())

    def get(self, key: Key) -> Object | None:
        """A link by its own namespace and name, whichever Service it is about."""
        store = self._watched.store
        return store.get(key) if store is not None else None

    def services(self, namespace: str) -> set[Key]:
        """Those that have a link, of a namespace or (empty) of all, whether there is such a Service or not."""
        return {key for key in self._links if namespace in ("", key[0])}

    def rule(self, service: Object) -> Rule:
        """What they say together with the annotations of the Service."""
        version, known = self._rules.get(service.key, ("", None))
        if known is None or version != service.version:
            known = rule(service.annotations, [link.decode() for link in self.of(service.key)])
            self._rules[service.key] = (service.version, known)
        return known

    def forget(self, service: Key) -> None:
        """A Service is no more."""
        self._rules.pop(service, None)

    def absorb(self, raw: bytes) -> None:
        """Take a link from the answer to our own write. Raises Unreadable."""
        self._watched.absorb(raw)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        specs = [link.decode() if link is not None else None for link in (old, new)]
        if (obj := new or old) is not None:
            self._tally.note(obj.key, specs[1])
        services = [(each["metadata"]["namespace"], service_of(each)) for each in specs if each is not None]
        if old is not None:
            links = self._links.get(services[0], {})
            links.pop(old.name, None)
            if not links:
                self._links.pop(services[0], None)
        if new is not None:
            self._links.setdefault(services[-1], {})[new.name] = new
        same = None not in specs and specs[0].get("spec") == specs[1].get("spec")  # type: ignore[union-attr]
        for service in dict.fromkeys(services):
            if not same:
                self._rules.pop(service, None)
                tell(self._narrowed, service)
            tell(self._listeners, service)

    def _turn(self) -> None:
        """They have been read, or are not served any more.

        Where they may not be read any more what is known counts: without it more would be told than was asked for.
        """
        if self._watched.store is not None or not self._watched.is_withheld:
            self._links.clear()
            self._rules.clear()
            self._tally.clear()
        tell(self._turned)


class Tally:
    """How many links say what of themselves, for whoever looks at metrics."""

    def __init__(self) -> None:
        self._said: dict[Key, str] = {}
        self._counts: Counter[str] = Counter()

    def note(self, key: Key, link: Mapping[str, Any] | None) -> None:
        """A link is this now; None: it is gone."""
        before, now = self._said.pop(key, ""), _ready(link) if link is not None else ""
        if now:
            self._said[key] = now
        for status, change in ((before, -1), (now, 1)):
            if status:
                self._counts[status] += change
                _TOLD.labels(status).set(self._counts[status])

    def clear(self) -> None:
        """None is known any more."""
        self._said.clear()
        self._counts.clear()
        _TOLD.clear()


def _ready(link: Mapping[str, Any]) -> str:
    said = find_condition((link.get("status") or {}).get("conditions"), READY) or {}
    return str(said["status"]) if said.get("status") in ("True", "False") else "Unknown"
