"""What is exported and imported in every cluster, and the Services behind that: from the stores alone."""

from collections.abc import Callable
from dataclasses import dataclass, field

from agent.api import names
from agent.api.kinds import SERVICE_EXPORTS, SERVICE_IMPORTS, SERVICES, SOURCE_KINDS, TARGET_KINDS, Kind
from agent.api.names import mcs
from agent.clusters.deps import Deps
from agent.clusters.optional_watch import OptionalWatch
from agent.clusters.port import Port
from agent.clusters.target import Target
from agent.drivers.driver import LOCAL
from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from agent.model.links import LOCAL_NAME
from agent.model.serviceexports import Export, Merged, is_served, merge
from agent.model.source import features

Changed = Callable[[Object], None]

FEATURE = "mcs"
"""What a Source has to allow for that cluster's agent to import here."""


@dataclass(frozen=True)
class Gathered:
    """All that is known of one Service that is exported; clusters are named by their virtual nodes."""

    exports: dict[str, Export]
    """By cluster; one that several Targets lead to is there once."""
    others: dict[str, Export]
    """Copies of the Service that this cluster exports, for pods of it are behind them, too; and the same exports once
    more, by other Targets that lead to their cluster."""
    unknown: set[str]
    """Clusters of which it is not known yet what they export."""
    unread: bool
    """Whether some of these are just being read."""
    merged: Merged | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "merged", merge(self.exports.values()))

    @property
    def here(self) -> Export | None:
        """What this cluster exports, if it counts."""
        found = self.exports.get(LOCAL)
        return found if found is not None and is_served(found) else None

    @property
    def there(self) -> dict[str, Export]:
        """What others have of the Service, by cluster, as far as it counts."""
        return {node: each for node, each in (self.others | self.exports).items() if node != LOCAL and is_served(each)}


class _View:
    """One cluster."""

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
        self.watches = {
            kind: OptionalWatch(port, kind, namespace or None, interval, _either(changed), turned, any_version=True)
            for kind in (SERVICE_EXPORTS, SERVICE_IMPORTS)
        }

    def find(self, kind: Kind, key: Key) -> Object | None:
        """An export or import, as far as they can be read."""
        store = self.watches[kind].store
        return store.get(key) if store is not None else None

    @property
    def is_known(self) -> bool:
        """Whether it is known what the cluster exports; one that does not serve that kind exports nothing."""
        exports = self.watches[SERVICE_EXPORTS]
        return self.services.synced.is_set() and (exports.store is not None or bool(exports.refusal))

    def stop(self) -> None:
        """The cluster is no more."""
        for watch in self.watches.values():
            watch.stop()


class Exports:
    """`changed` is called with the Service that is exported, whenever an export or import is new in any cluster;
    `turned` when a cluster can be read from now on, or no longer.
    """

    def __init__(self, deps: Deps, changed: Callable[[Key], None], turned: Callable[[], None]) -> None:
        self._deps = deps
        self._turned = turned
        self._notify = changed
        self._derived: dict[Key, Key] = {}
        """By derived Service, the one that is exported."""
        self.services = deps.local.informer(SERVICES)
        self.targets = deps.local.either(TARGET_KINDS)
        self.sources = deps.local.either(SOURCE_KINDS)
        self._views = {LOCAL: self._view(deps.local.port, "", self.services)}

    def attach(self, target: Target) -> Informer:
        """Begin to read a target; returns its Services."""
        informer = target.informer(SERVICES)
        self._views[target.node_name] = self._view(target.port, target.namespace, informer)
        return informer

    def detach(self, node: str) -> None:
        """A target is no more, or will be read anew."""
        if (view := self._views.pop(node, None)) is not None:
            view.stop()

    def _view(self, port: Port, namespace: str, services: Informer) -> _View:
        interval = self._deps.settings.discovery_interval
        return _View(port, namespace, services, interval, self._told, self._turned)

    def _told(self, obj: Object) -> None:
        self._derived[obj.namespace, mcs.derived(obj.name)] = obj.key
        self._notify(obj.key)

    def reads(self, node: str) -> bool:
        """Whether a cluster is attached: a target that is this very cluster is not."""
        return node in self._views

    def port(self, node: str) -> Port:
        """The way to a cluster. Raises KeyError where that is not attached."""
        return self._views[node].port

    def is_left_to_a_source(self, namespace: str) -> bool:
        """Whether a namespace is another agent's: it has no Target, and a Source that may import here."""
        if self.targets.serving(namespace):
            return False
        return any(FEATURE in features(each.decode().get("spec") or {}) for each in self.sources.serving(namespace))

    def nodes(self, namespace: str) -> list[str]:
        """Clusters that may export and import Services of a namespace, connected or not, this one first."""
        return [LOCAL, *sorted(names.virtual_node(*obj.key) for obj in self.targets.serving(namespace))]

    def called(self, node: str) -> str:
        """What a cluster is called in ServiceImports."""
        target = self._deps.targets.by_node(node) if node != LOCAL else None
        name = target.title if target is not None else self._deps.settings.cluster_name or LOCAL_NAME
        return mcs.cluster(name)

    def of(self, key: Key) -> Gathered:
        """Everything about one Service."""
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
        """The ServiceExport of a cluster, unless it is being deleted."""
        found = self._views[node].find(SERVICE_EXPORTS, key) if node in self._views else None
        return found if found is not None and not found.deleting else None

    def imported(self, node: str, key: Key) -> Object | None:
        """The ServiceImport of a cluster."""
        return self._views[node].find(SERVICE_IMPORTS, key) if node in self._views else None

    def may_import(self, node: str) -> bool:
        """Whether it is known which ServiceImports a cluster has."""
        return self._views[node].watches[SERVICE_IMPORTS].store is not None

    def served(self, node: str, kind: Kind) -> Kind:
        """A kind in the version that is watched in a cluster."""
        return self._views[node].watches[kind].kind

    def refusal(self, node: str) -> str:
        """Why it is not known which ServiceImports a cluster has, as its API server says."""
        return self._views[node].watches[SERVICE_IMPORTS].refusal

    def absorb(self, node: str, kind: Kind, raw: bytes) -> Object | None:
        """Take the answer to a write of ours."""
        return self._views[node].watches[kind].absorb(raw) if node in self._views else None

    def derived(self, node: str, key: Key) -> Object | None:
        """The derived Service of a cluster, if we have made it."""
        found = self._service(node, (key[0], mcs.derived(key[1])))
        if found is None or not (mcs.LABEL_DERIVED in found.labels if node == LOCAL else self.is_ours(found)):
            return None
        return found

    def of_service(self, service: Object) -> Key | None:
        """The exported Service for which one is of interest: itself, or what it is derived from; None for none."""
        if mcs.is_derived(service.name):
            return self._derived.get((service.namespace, service.name))
        return service.key if self._concerns(service.key) else None

    def _concerns(self, key: Key) -> bool:
        kinds = (SERVICE_EXPORTS, SERVICE_IMPORTS)
        return any(view.find(kind, key) is not None for view in self._views.values() for kind in kinds)

    def known(self) -> set[Key]:
        """Services that any cluster exports or imports."""
        stores = [watch.store for view in self._views.values() for watch in view.watches.values()]
        return {obj.key for store in stores if store is not None for obj in store}

    def is_ours(self, obj: Object) -> bool:
        """Whether this agent has made an object."""
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
