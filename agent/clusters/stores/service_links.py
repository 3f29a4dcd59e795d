"""ServiceLinks of this cluster by Service, and the rules that they and a Service's annotations request."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from prometheus_client import Gauge

from agent.api.conditions import condition_of
from agent.api.kinds import SERVICE_LINKS
from agent.base.listeners import tell
from agent.base.metrics import REGISTRY
from agent.clusters.cluster import Cluster
from agent.clusters.lingering import Lingering
from agent.clusters.optional_watch import Watched
from agent.kube.store import Key, Object
from agent.model.servicelinks import READY
from agent.model.servicerule import Rule, Wish, combined, service_of, wish

_LINKS = Gauge(
    "flotilla_service_links",
    "ServiceLinks, by the status of their condition Ready.",
    ("ready",),
    registry=REGISTRY,
)


class ServiceLinks:
    """All links by their Service; none if the feature is off or the kind is not served."""

    def __init__(self, local: Cluster, interval: float, *, wanted: bool) -> None:
        self._wanted = wanted
        self._watched = Watched(local.port, SERVICE_LINKS, interval)
        self._lingering = Lingering(local.port, lambda: SERVICE_LINKS, self._changed)
        self._links: dict[Key, dict[str, Object]] = {}
        self._rules: dict[Key, tuple[str, Rule]] = {}
        self._wishes: dict[Key, Wish] = {}
        """The wish of each link, decoded once per version: a change of one link combines the wishes of all again."""
        self._listeners: list[Callable[[Key], None]] = []
        self._narrowed: list[Callable[[Key], None]] = []
        self._turned: list[Callable[[], None]] = []
        self._counts = LinkCounts()
        if wanted:
            self._watched.subscribe(self._lingering.changed, self._turn)
            self._watched.wanted(True)

    @property
    def served(self) -> bool:
        """Whether all links have been read."""
        return self._watched.store is not None

    @property
    def known(self) -> bool:
        """Whether the set of links is known. Before that, no link counts as missing."""
        return not self._wanted or self.served or bool(self._watched.refusal)

    def subscribe(self, listener: Callable[[Key], None]) -> None:
        """Register a listener: called with namespace and name of a Service whose link changes."""
        self._listeners.append(listener)

    def on_rule(self, narrowed: Callable[[Key], None], turned: Callable[[], None]) -> None:
        """Register listeners for changed rules: `narrowed` for one Service, `turned` if any rule may differ."""
        self._narrowed.append(narrowed)
        self._turned.append(turned)

    def of(self, service: Key) -> list[Object]:
        """Return the links of a Service that exist."""
        found = self._links.get(service, {}).values()
        return [each for each in found if not self._lingering.is_deleted(each.key)]

    def is_deleted(self, key: Key) -> bool:
        """Return whether a link has been deleted, probably with its CRD, and its rule still counts."""
        return self._lingering.is_deleted(key)

    def get(self, key: Key) -> Object | None:
        """Return a link by its own namespace and name, None if it is unknown."""
        store = self._watched.store
        return store.get(key) if store is not None else None

    def services(self, namespace: str) -> set[Key]:
        """Return the Services of a namespace (empty: of all) that have a link, whether they exist or not."""
        return {key for key in self._links if namespace in ("", key[0])}

    def rule(self, service: Object) -> Rule:
        """Return the combined rule of the links and the annotations of a Service."""
        version, known = self._rules.get(service.key, ("", None))
        if known is None or version != service.version:
            links = sorted(self._links.get(service.key, {}))
            known = combined(service.annotations, [self._wishes[service.namespace, name] for name in links])
            self._rules[service.key] = (service.version, known)
        return known

    def forget(self, service: Key) -> None:
        """Forget a deleted Service."""
        self._rules.pop(service, None)

    def absorb(self, raw: bytes) -> None:
        """Update a link from the response to a write by this agent. Raises Unreadable."""
        self._watched.absorb(raw)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        specs = [link.decode() if link is not None else None for link in (old, new)]
        if (obj := new or old) is not None:
            self._counts.update(obj.key, specs[1])
            if specs[1] is not None:
                self._wishes[obj.key] = wish(specs[1])
            else:
                self._wishes.pop(obj.key, None)
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
        """Handle that all links have been read, or that they are no longer.

        If they may no longer be read, the last known links count: without them more would be published than
        requested. If the kind is no longer served, they count for a while.
        """
        self._lingering.turned(self._watched)
        tell(self._turned)


class LinkCounts:
    """The metric `flotilla_service_links`: number of links by the status of their condition Ready."""

    def __init__(self) -> None:
        self._said: dict[Key, str] = {}
        self._counts: Counter[str] = Counter()

    def update(self, key: Key, link: Mapping[str, Any] | None) -> None:
        """Count a link with its current status; None if it has been deleted."""
        before, now = self._said.pop(key, ""), _ready(link) if link is not None else ""
        if now:
            self._said[key] = now
        for status, change in ((before, -1), (now, 1)):
            if status:
                self._counts[status] += change
                _LINKS.labels(status).set(self._counts[status])


def _ready(link: Mapping[str, Any]) -> str:
    said = condition_of(link, READY) or {}
    return str(said["status"]) if said.get("status") in ("True", "False") else "Unknown"
