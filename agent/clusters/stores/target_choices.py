"""Target choices: the targets that each pod may use, by its own, its controllers', its namespace's and the
settings' choice.

If an annotation of a namespace or a controller cannot be read, the last readable value counts, as long as this
process remembers it.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache

from agent.api.kinds import TARGET_KINDS
from agent.base.listeners import tell
from agent.clusters.cluster import Cluster
from agent.clusters.stores.namespaces import Namespaces
from agent.clusters.stores.owners import Chain, Owners, controller_of
from agent.clusters.stores.proxies import ProxyPods
from agent.kube.store import Key, Object
from agent.model.targetchoice import Level, TargetChoice, combine, level_of, mended
from agent.settings import Settings

POD = "the pod"
"""Name used for all pods, so that pods of a template have equal choices."""
SETTINGS = "the agent"
_CONTROLLER = "controller"
_NOBODY = Chain(())

_combined = lru_cache(maxsize=512)(combine)


@lru_cache(maxsize=64)
def _unread(what: str) -> TargetChoice:
    return TargetChoice(flaw=f"{what} have not been read yet, which may say where the pod goes")


Listener = Callable[[Iterable[Key]], None]


def said_by(where: str, obj: Object) -> Level | None:
    """Return the choice in an object's annotations, None if they contain none."""
    known = obj.hot_annotations
    targets = known.targets, known.targets_short
    allowed = known.allowed_targets, known.allowed_targets_short
    return None if targets == allowed == (None, None) else level_of(where, targets, allowed)


def said_by_settings(settings: Settings) -> Level | None:
    """Return the choice in the settings, None if they contain none."""
    targets, allowed = settings.targets or None, settings.allowed_targets or None
    return Level(SETTINGS, targets, allowed, "--targets", "--allowed-targets") if targets or allowed else None


class TargetChoices:
    """Lookup of the targets that pods may use. Its results are valid only after the informer of namespaces has synced.

    :param owners: None if annotations of controllers do not count
    """

    def __init__(
        self, local: Cluster, namespaces: Namespaces, proxies: ProxyPods, owners: Owners | None, settings: Settings
    ) -> None:
        self._settings = said_by_settings(settings)
        self._objects = local.either(TARGET_KINDS)
        self._own: dict[str, frozenset[str]] = {}
        """Names of Targets by namespace."""
        for informer in self._objects.informers:
            informer.subscribe(self._target_changed)
        self._pods = proxies
        self._proxies = proxies.informer.store
        self._by_namespace: dict[str, Level] = {}
        self._owners = owners
        self._by_owner: dict[str, Level] = {}
        """Choices of controllers by UID."""
        self._listeners: list[Listener] = []
        namespaces.informer.subscribe(self._namespace_changed)
        if owners is not None:
            self._proxies.index(_CONTROLLER, controller_of)
            for informer in owners.informers.values():
                informer.subscribe(self._owner_changed)

    def on_change(self, listener: Listener) -> None:
        """Register a listener: called with the keys of unchanged pods whose choice has changed."""
        self._listeners.append(listener)

    def of(self, pod: Object) -> TargetChoice | None:
        """Return the choice of targets for a pod, None without any. Equal choices are the identical object."""
        chain = self._owners.of(pod) if self._owners is not None else _NOBODY
        if chain.missing is not None:
            error = f" ({chain.missing.error})" if chain.missing.error is not None else ""
            return _unread(f"{chain.missing.kind.plural}{error}")
        by_owners = [self._by_owner.get(owner.uid) for owner in chain.owners] if self._by_owner else ()
        said = (said_by(POD, pod), *by_owners, self._by_namespace.get(pod.namespace), self._settings)
        levels = tuple(level for level in said if level is not None)
        if not levels:
            return None
        if not self._objects.synced:
            return _unread("Targets")
        return _combined(levels, self._own_targets(pod.namespace))

    def _own_targets(self, namespace: str) -> frozenset[str]:
        """Return the names of a namespace's Targets: the same object until they change, whose hash is computed once."""
        own = self._own.get(namespace)
        if own is None:
            own = self._own[namespace] = frozenset(obj.name for obj in self._objects.in_namespace(namespace))
        return own

    def can_tell(self, pod: Object) -> bool:
        """Return whether the choice of a pod is known. Shortly after a start it is not."""
        missing = self._owners.of(pod).missing if self._owners is not None else None
        return self._objects.synced and (missing is None or missing.error is not None)

    def pods_of(self, owner: Object) -> list[Object]:
        """Return the proxy pods that an owner controls, directly or indirectly; none if annotations of
        controllers do not count.
        """
        if self._owners is None:
            return []
        return [pod for uid in self._owners.below(owner) for pod in self._proxies.by_index(_CONTROLLER, uid)]

    def _target_changed(self, old: Object | None, new: Object | None) -> None:
        target = new or old
        if target is not None and (old is None or new is None):
            self._own.pop(target.namespace, None)

    def _namespace_changed(self, old: Object | None, new: Object | None) -> None:
        namespace = new or old
        assert namespace is not None
        if new is None:
            self._own.pop(namespace.name, None)
        where = f"namespace {namespace.name}"
        if _note(self._by_namespace, namespace.name, where, old, new):
            tell(self._listeners, [pod.key for pod in self._pods.in_namespace(namespace.name)])

    def _owner_changed(self, old: Object | None, new: Object | None) -> None:
        if old is not None and new is not None and old.uid != new.uid:
            self._owner_changed(old, None)
            old = None
        owner = new or old
        assert owner is not None
        assert self._owners is not None
        changed = _note(self._by_owner, owner.uid, f"{owner.kind.name} {owner.name}", old, new)
        if changed or old is None:
            pods = self.pods_of(owner)
            if pods:
                tell(self._listeners, [pod.key for pod in pods])


def _note(known: dict[str, Level], key: str, where: str, old: Object | None, new: Object | None) -> bool:
    """Record the choice in an object's annotations; return whether it has changed."""
    before = known.pop(key, None)
    said = said_by(where, new) if new is not None else None
    if said is not None:
        said = known[key] = mended(said, before or Level(where) if old is not None else None)
    return said != before
