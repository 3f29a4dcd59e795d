"""Exports and imports in every cluster, and the Services behind them, from the stores only."""

from collections.abc import Callable
from dataclasses import dataclass, field

from agent.api import names
from agent.api.kinds import SERVICE_EXPORTS, SERVICE_IMPORTS, SERVICES, SOURCE_KINDS, TARGET_KINDS, Kind
from agent.api.names import mcs
from agent.clusters.deps import Deps
from agent.clusters.lingering import Lingering
from agent.clusters.optional_watch import OptionalWatch
from agent.clusters.port import Port
from agent.clusters.target import Target
from agent.drivers.driver import LOCAL
from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from agent.kube.subscribers import Subscriber
from agent.model.links import LOCAL_NAME
from agent.model.serviceexports import Export, Merged, is_served, merge
from agent.model.source import features

Changed = Callable[[Object], None]

FEATURE = "mcs"
"""Feature that a Source must allow so that the source's agent may import Services into this cluster."""


@dataclass(frozen=True)
class Gathered:
    """State of one exported Service in all clusters, which are named by their virtual nodes."""

    exports: dict[str, Export]
    """Exports by cluster. A cluster with several Targets is included once."""
    others: dict[str, Export]
    """Copies of the Service that this cluster exports, since they may have endpoints, too; and the exports of
    clusters with several Targets, by their other Targets.
    """
    unknown: set[str]
    """Clusters whose exports are not known yet."""
    unread: bool
    """Whether some of the unknown clusters are connected and just being read."""
    merged: Merged | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "merged", merge(self.exports.values()))

    @property
    def here(self) -> Export | None:
        """This cluster's export if it can be served, else None."""
        found = self.exports.get(LOCAL)
        return found if found is not None and is_served(found) else None

    @property
    def there(self) -> dict[str, Export]:
        """Services of other clusters by virtual node, as far as they can be served."""
        return {node: each for node, each in (self.others | self.exports).items() if node != LOCAL and is_served(each)}


class _View:
    """Watches of one cluster."""

    def __init__(
        self,
        port: Port,
        namespace: str,
        services: Informer,
        interval: float,
        changed: Changed,
        turned: Callable[[], None],
    ) -> None:
        self.port = port
        self.services = services
        self._turned = turned
        self.exports = Lingering(port, lambda: self.watches[SERVICE_EXPORTS].kind, _either(changed))
        """ServiceExports that count."""

        def watch(kind: Kind, changed: Subscriber, turned: Callable[[], None]) -> OptionalWatch:
            return OptionalWatch(port, kind, namespace or None, interval, changed, turned, any_version=True)

        self.watches = {
            SERVICE_EXPORTS: watch(SERVICE_EXPORTS, self.exports.changed, self._exports_turned),
            SERVICE_IMPORTS: watch(SERVICE_IMPORTS, _either(changed), turned),
        }

    def _exports_turned(self) -> None:
        self.exports.turned(self.watches[SERVICE_EXPORTS])
        self._turned()

    def find_import(self, key: Key) -> Object | None:
        """Return a ServiceImport, None if it does not exist or cannot be read."""
        store = self.watches[SERVICE_IMPORTS].store
        return store.get(key) if store is not None else None

    @property
    def is_known(self) -> bool:
        """Whether the cluster's exports are known. A cluster that does not serve the kind exports nothing."""
        exports = self.watches[SERVICE_EXPORTS]
        return self.services.synced.is_set() and (exports.store is not None or bool(exports.refusal))

    def stop(self) -> None:
        """Stop the watches of a disconnected cluster."""
        self.exports.stop()
        for watch in self.watches.values():
            watch.stop()


class Exports:
    """Exports and imports of all clusters. Calls `changed` with the exported Service at each change,
    and `turned` when a cluster becomes readable or unreadable.
    """

    def __init__(self, deps: Deps, changed: Callable[[Key], None], turned: Callable[[], None]) -> None:
        self._deps = deps
        self._turned = turned
        self._notify = changed
        self._derived: dict[Key, Key] = {}
        """Exported Services by their derived Services."""
        self.services = deps.local.informer(SERVICES)
        self.targets = deps.local.either(TARGET_KINDS)
        self.sources = deps.local.either(SOURCE_KINDS)
        self._views = {LOCAL: self._view(deps.local.port, "", self.services)}

    def attach(self, target: Target) -> Informer:
        """Start to read a target; return the informer of its Services."""
        informer = target.informer(SERVICES)
        self._views[target.node_name] = self._view(target.port, target.namespace, informer)
        return informer

    def detach(self, node: str) -> None:
        """Stop reading a target that was removed or is about to be read again."""
        if (view := self._views.pop(node, None)) is not None:
            view.stop()

    def _view(self, port: Port, namespace: str, services: Informer) -> _View:
        interval = self._deps.settings.discovery_interval
        return _View(port, namespace, services, interval, self._told, self._turned)

    def _told(self, obj: Object) -> None:
        self._derived[obj.namespace, mcs.derived(obj.name)] = obj.key
        self._notify(obj.key)

    def reads(self, node: str) -> bool:
        """Return whether a cluster is attached. A self-target is not."""
        return node in self._views

    def port(self, node: str) -> Port:
        """Return the port to a cluster. Raises KeyError if it is not attached."""
        return self._views[node].port

    def is_left_to_a_source(self, namespace: str) -> bool:
        """Return whether another agent handles a namespace: it has no Target, and a Source that may import into it."""
        if self.targets.serving(namespace):
            return False
        return any(FEATURE in features(each.decode().get("spec") or {}) for each in self.sources.serving(namespace))

    def nodes(self, namespace: str) -> list[str]:
        """Return the clusters that may export and import Services of a namespace, connected or not, the local
        one first.
        """
        return [LOCAL, *sorted(names.virtual_node(*obj.key) for obj in self.targets.serving(namespace))]

    def called(self, node: str) -> str:
        """Return the name of a cluster in ServiceImports."""
        target = self._deps.targets.by_node(node) if node != LOCAL else None
        name = target.title if target is not None else self._deps.settings.cluster_name or LOCAL_NAME
        return mcs.cluster(name)

    def of(self, key: Key) -> Gathered:
        """Return the state of one Service in all clusters."""
        exports, others, seen = dict[str, Export](), dict[str, Export](), dict[str, Export]()
        nodes = self.nodes(key[0])
        unknown = {node for node in nodes if node not in self._views or not self._views[node].is_known}
        for node in nodes:
            if node in unknown:
                continue
            found, service = self.exported(node, key), self._service(node, key)
            raw = service.decode() if service is not None else None
            if found is not None and found.uid in seen:
                others[node] = seen[found.uid]
            elif found is not None:
                exports[node] = seen[found.uid] = Export(self.called(node), found.decode(), raw)
            elif service is not None and LOCAL in exports and self.is_ours(service):
                others[node] = Export(self.called(node), exports[LOCAL].manifest, raw)
        return Gathered(exports, others, unknown, unread=not unknown.isdisjoint(self._views))

    def exported(self, node: str, key: Key) -> Object | None:
        """Return the ServiceExport of a cluster, None if it does not exist or is being deleted."""
        found = self._views[node].exports.get(key) if node in self._views else None
        return found if found is not None and not found.deleting else None

    def imported(self, node: str, key: Key) -> Object | None:
        """Return the ServiceImport of a cluster, None if it does not exist."""
        return self._views[node].find_import(key) if node in self._views else None

    def may_import(self, node: str) -> bool:
        """Return whether the ServiceImports of a cluster are known."""
        return self._views[node].watches[SERVICE_IMPORTS].store is not None

    def served(self, node: str, kind: Kind) -> Kind:
        """Return a kind in the version that is watched in a cluster."""
        return self._views[node].watches[kind].kind

    def refusal(self, node: str) -> str:
        """Return the API server's reason why the ServiceImports of a cluster are not known; empty if they are."""
        return self._views[node].watches[SERVICE_IMPORTS].refusal

    def absorb(self, node: str, kind: Kind, raw: bytes) -> Object | None:
        """Update the store from the response to a write by this agent."""
        return self._views[node].watches[kind].absorb(raw) if node in self._views else None

    def derived(self, node: str, key: Key) -> Object | None:
        """Return the derived Service of a cluster, None if this agent has not created it."""
        found = self._service(node, (key[0], mcs.derived(key[1])))
        if found is None or not (mcs.LABEL_DERIVED in found.labels if node == LOCAL else self.is_ours(found)):
            return None
        return found

    def of_service(self, service: Object) -> Key | None:
        """Return the exported Service that a Service belongs to: itself, or the one that it is derived from;
        None if none.
        """
        if mcs.is_derived(service.name):
            return self._derived.get((service.namespace, service.name))
        return service.key if self._concerns(service.key) else None

    def _concerns(self, key: Key) -> bool:
        views = self._views.values()
        return any((view.exports.get(key) or view.find_import(key)) is not None for view in views)

    def known(self) -> set[Key]:
        """Return the Services that any cluster exports or imports."""
        imports = [view.watches[SERVICE_IMPORTS].store for view in self._views.values()]
        found = {obj.key for store in imports if store is not None for obj in store}
        return found.union(*(view.exports.keys() for view in self._views.values()))

    def is_ours(self, obj: Object) -> bool:
        """Return whether this agent has created an object."""
        return obj.labels.get(names.LABEL_PARENT_CLUSTER_UID) == self._deps.cluster_uid

    def _service(self, node: str, key: Key) -> Object | None:
        found = self._views[node].services.store.get(key) if node in self._views else None
        return found if found is not None and not found.deleting else None


def _either(changed: Changed) -> Callable[[Object | None, Object | None], None]:
    def told(old: Object | None, new: Object | None) -> None:
        found = new or old
        if found is not None:
            changed(found)

    return told
