"""Index of the objects that pods need in each target, from proxy pods, their claims and chaperons. No I/O."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from agent.api import names
from agent.api.kinds import SERVICE_ACCOUNTS, Kind
from agent.clusters.deps import Deps
from agent.clusters.stores.chaperons import Placed
from agent.clusters.stores.namespaces import turns
from agent.clusters.target import Target
from agent.kube.errors import UNDECODABLE
from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from agent.model.namespaces import accounts_follow
from agent.model.podstate import ENDED, kept_home_node
from agent.model.references import References, own_and_added

_NOTHING: frozenset[Any] = frozenset()
_FOLLOW_ACCOUNT = names.FOLLOW_ACCOUNT.encode()
_INJECTED = names.INJECTED.encode()
_Names = tuple[tuple[Kind, str], ...]


class Item(NamedTuple):
    """One object in one target."""

    node: str
    """Virtual node of the target."""
    kind: Kind
    namespace: str
    name: str

    @property
    def key(self) -> Key:
        """Namespace and name, the same in source and target."""
        return (self.namespace, self.name)


@dataclass(slots=True)
class _Pod:
    """Hash of a pod's last observed state, and the objects that it needs."""

    seen: int | None = None
    read: object = None
    """State from which `names` was read: UID and generation of the pod, and whether it includes the service account."""
    names: _Names = ()
    added: _Names = ()
    """Names that only containers and volumes added by other webhooks use."""
    items: frozenset[Item] = field(default_factory=frozenset)


class Needs:
    """Index kept current by `update`, which calls `changed` with every item that became needed or unneeded.

    A pod needs the objects that it names in the target of its node, else of its claim, and wherever it has a chaperon.
    A chaperon needs them until its delegate has been deleted, even without its pod. Pods that have ended need nothing;
    pods that are being deleted, or whose namespace is not enabled, need only what their chaperons need. Service
    accounts are needed if the pod or its namespace asks for them, and by default in namespaces that elect by default.
    The account `default` never is: every namespace has its own. Names in added containers count if these containers are
    copied.
    """

    def __init__(
        self, deps: Deps, proxies: Informer, kinds: Collection[Kind], changed: Callable[[Iterable[Item]], None]
    ) -> None:
        self._deps = deps
        self._proxies = proxies
        self._kinds = frozenset(kinds)
        self._changed = changed
        self._pods: dict[Key, _Pod] = {}
        self._expected: dict[Key, set[str]] = {}
        self._by_item: dict[Item, set[Key]] = {}
        self._by_object: dict[tuple[Kind, Key], set[Item]] = {}
        self._with_accounts: set[str] = set()
        self._with_added: set[str] = set()
        deps.namespaces.informer.subscribe(self._namespace_changed)
        proxies.store.index("namespace", lambda pod: (pod.namespace,))

    def pods(self, item: Item) -> Collection[Key]:
        """Return the pods that need an item."""
        return self._by_item.get(item, ())

    def of_object(self, kind: Kind, key: Key) -> Collection[Item]:
        """Return the items for an object: one for each target that needs it."""
        return self._by_object.get((kind, key), ())

    def of_node(self, node: str) -> list[Item]:
        """Return the needed items of one target."""
        return [item for item in self._by_item if item.node == node]

    def asked_for(self, item: Item) -> bool:
        """Return whether a pod that needs a service account, or the namespace, asks for it explicitly."""
        if names.annotation(self._deps.namespaces.annotations(item.namespace), names.FOLLOW_ACCOUNT) == "true":
            return True
        pods = (self._proxies.store.get(key) for key in self.pods(item))
        return any(pod and names.annotation(pod.annotations, names.FOLLOW_ACCOUNT) == "true" for pod in pods)

    def is_in_use(self, item: Item) -> bool:
        """Return whether pods in a target use a service account and neither they nor their namespace decline it."""
        if names.annotation(self._deps.namespaces.annotations(item.namespace), names.FOLLOW_ACCOUNT) == "false":
            return False
        mark, pods = item.name.encode(), self._proxies.store.by_index("namespace", item.namespace)
        # Most pods do not name it: those need not be decoded.
        return any(mark in pod.raw and self._uses(pod, item) for pod in pods)

    def _uses(self, pod: Object, item: Item) -> bool:
        if pod.phase in ENDED or names.annotation(pod.annotations, names.FOLLOW_ACCOUNT) == "false":
            return False
        nodes = (kept_home_node(pod), *(each.target.node_name for each in self._deps.chaperons.of(pod.key)))
        return item.node in nodes and (item.kind, item.name) in self._names(pod, accounts=True)[0]

    def expect(self, pod: Key, target: Target) -> list[Item]:
        """Return the items that a pod needs in a target, before its chaperon is created."""
        if self._proxies.store.get(pod) is None:
            return []
        self._expected.setdefault(pod, set()).add(target.node_name)
        self.update(pod)
        known = self._pods.get(pod)
        return [item for item in known.items if item.node == target.node_name] if known else []

    def update(self, key: Key) -> None:
        """Check a pod again. Called for every change of every proxy pod and chaperon; mostly nothing has changed."""
        pod = self._proxies.store.get(key)
        placed = self._deps.chaperons.of(key)
        if pod is None and not placed and key not in self._pods:
            return
        self._forget_expected(pod, key, placed)
        record = self._pods.setdefault(key, _Pod())
        asked = (key[0] in self._with_accounts, key[0] in self._with_added, self._deps.namespaces.is_enabled(key[0]))
        expected = frozenset(self._expected.get(key, ()))
        seen = hash((pod and _signature(pod), _places(placed), expected, asked))
        if seen != record.seen:
            record.seen = seen
            self._replace(key, record, frozenset(self._items(key, pod, placed, record)))
        if pod is None and not placed:
            del self._pods[key]

    def _forget_expected(self, pod: Object | None, key: Key, placed: Iterable[Placed]) -> None:
        expected = self._expected.get(key)
        if expected is None:
            return
        expected.difference_update(each.target.node_name for each in placed)
        if not expected or pod is None or pod.node_name or pod.deleting:
            del self._expected[key]

    def _items(self, key: Key, pod: Object | None, placed: Collection[Placed], record: _Pod) -> Iterable[Item]:
        nodes: set[str] = set()
        if pod is not None and not pod.deleting and pod.phase not in ENDED:
            home = kept_home_node(pod) if self._deps.namespaces.is_enabled(key[0]) else ""
            nodes = {home, *self._expected.get(key, ())} - {""}
        if pod is not None and (nodes or placed):
            # Pods without a target, such as those with too many references, are not searched for names.
            self._read(pod, record)
        for each in placed:
            if each.chaperon.phase in ENDED:
                continue
            if pod is None or not each.is_of(pod):
                yield from self._of_chaperon(each)
            elif pod.phase not in ENDED:
                nodes.add(each.target.node_name)
                # The pod may have had another annotation when it was created.
                yield from self._of_chaperon(each) if record.added else ()
        if pod is None or not nodes:
            return
        for kind, name in (*record.names, *(record.added if self._wants_added(pod) else ())):
            for node in nodes:
                yield Item(node, kind, key[0], name)

    def _read(self, pod: Object, record: _Pod) -> None:
        # API servers before 1.33 count no generations of pods.
        accounts = self._wants_account(pod)
        read = (pod.uid, pod.head.metadata.generation or pod.version, accounts)
        if record.read != read:
            record.read, (record.names, record.added) = read, self._names(pod, accounts=accounts)

    def _of_chaperon(self, placed: Placed) -> Iterable[Item]:
        """Return the items that the delegate names."""
        namespace = placed.chaperon.namespace
        for kind, name in self._names(placed.chaperon, accounts=namespace in self._with_accounts)[0]:
            yield Item(placed.target.node_name, kind, namespace, name)

    def _names(self, pod: Object, *, accounts: bool) -> tuple[_Names, _Names]:
        """Return the names that a pod uses itself, and the names that only added containers use."""
        try:
            own, added = own_and_added(pod.raw)
        except UNDECODABLE:
            return (), ()
        kinds = self._kinds if accounts else self._kinds - {SERVICE_ACCOUNTS}
        own.get(SERVICE_ACCOUNTS, {}).pop("default", None)
        return _listed(own, kinds), _listed(added, kinds)

    def _wants_account(self, pod: Object) -> bool:
        own = names.annotation(pod.annotations, names.FOLLOW_ACCOUNT) if _FOLLOW_ACCOUNT in pod.raw else None
        return pod.namespace in self._with_accounts if own is None else own == "true"

    def _wants_added(self, pod: Object) -> bool:
        own = names.annotation(pod.annotations, names.INJECTED) if _INJECTED in pod.raw else None
        return pod.namespace in self._with_added if own is None else own == names.INJECTED_FOLLOW

    def _namespace_changed(self, old: Object | None, new: Object | None) -> None:
        namespace = new or old
        assert namespace is not None
        before = (namespace.name in self._with_accounts, namespace.name in self._with_added)
        annotations = new.annotations if new is not None else {}
        accounts = accounts_follow(annotations)
        added = names.annotation(annotations, names.INJECTED) == names.INJECTED_FOLLOW
        for wanted, among in ((accounts, self._with_accounts), (added, self._with_added)):
            (among.add if wanted else among.discard)(namespace.name)
        if (accounts, added) != before:
            for key in [key for key in self._pods if key[0] == namespace.name]:
                self.update(key)
        elif turns(old, new):
            for pod in self._proxies.store.by_index("namespace", namespace.name):
                self.update(pod.key)

    def _replace(self, key: Key, record: _Pod, items: frozenset[Item]) -> None:
        items = frozenset(item for item in items if not self._is_self(item.node))
        old, record.items = record.items, items or _NOTHING
        for item in items - old:
            self._by_item.setdefault(item, set()).add(key)
            self._by_object.setdefault((item.kind, item.key), set()).add(item)
        for item in old - items:
            pods = self._by_item[item]
            pods.discard(key)
            if not pods:
                del self._by_item[item]
                self._by_object[(item.kind, item.key)].discard(item)
                if not self._by_object[(item.kind, item.key)]:
                    del self._by_object[(item.kind, item.key)]
        if items != old:
            self._changed(items ^ old)

    def _is_self(self, node: str) -> bool:
        target = self._deps.targets.by_node(node)
        return target is not None and target.is_self


def _listed(found: References, kinds: Collection[Kind]) -> _Names:
    return tuple((kind, name) for kind in found.keys() & kinds for name in found[kind])


def _signature(pod: Object) -> object:
    metadata = pod.head.metadata
    changes = metadata.generation or pod.version
    return (pod.uid, changes, pod.deleting, kept_home_node(pod), pod.phase in ENDED)


def _places(placed: Iterable[Placed]) -> object:
    return frozenset((each.target.node_name, each.chaperon.uid, each.chaperon.phase in ENDED) for each in placed)
