"""Target choices: which targets each pod may go to, as it, its namespace and the settings say.

A namespace whose annotation cannot be read any more has the last value that could, as long as this process knows it.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache

from agent.api.kinds import TARGET_KINDS
from agent.base.listeners import tell
from agent.clusters.cluster import Cluster
from agent.clusters.namespaces import Namespaces
from agent.clusters.proxies import ProxyPods
from agent.kube.store import Key, Object
from agent.model.targetchoice import Level, TargetChoice, combine, level_of, mended
from agent.settings import Settings

POD = "the pod"
"""One name for all, so that pods of a template have the same choice."""
SETTINGS = "the agent"
_NAMESPACE = "namespace"
_UNREAD = TargetChoice(flaw="Targets have not been read yet")

_combined = lru_cache(maxsize=512)(combine)

Listener = Callable[[Iterable[Key]], None]


def said_by(where: str, obj: Object) -> Level | None:
    """What an object says by annotation, None where it says nothing."""
    known = obj.hot_annotations
    targets = known.targets, known.targets_short
    allowed = known.allowed_targets, known.allowed_targets_short
    return None if targets == allowed == (None, None) else level_of(where, targets, allowed)


def said_by_settings(settings: Settings) -> Level | None:
    """What the settings say, None where they say nothing."""
    targets, allowed = settings.targets or None, settings.allowed_targets or None
    return Level(SETTINGS, targets, allowed, "--targets", "--allowed-targets") if targets or allowed else None


class TargetChoices:
    """Nothing may be concluded from it before the informer of namespaces has synced: whoever asks watches that."""

    def __init__(self, local: Cluster, namespaces: Namespaces, proxies: ProxyPods, settings: Settings) -> None:
        self._settings = said_by_settings(settings)
        self._objects = local.either(TARGET_KINDS)
        self._proxies = proxies.informer.store
        self._proxies.index(_NAMESPACE, lambda pod: (pod.namespace,))
        self._by_namespace: dict[str, Level] = {}
        self._listeners: list[Listener] = []
        namespaces.informer.subscribe(self._namespace_changed)

    def on_change(self, listener: Listener) -> None:
        """Call with the keys of pods for which something else is said now, though they are the same."""
        self._listeners.append(listener)

    def of(self, pod: Object) -> TargetChoice | None:
        """Where a pod may go, None where nobody says anything. The same object is the same answer."""
        said = (said_by(POD, pod), self._by_namespace.get(pod.namespace), self._settings)
        levels = tuple(level for level in said if level is not None)
        if not levels:
            return None
        if not self._objects.synced:
            return _UNREAD
        own = frozenset(obj.name for obj in self._objects.serving(pod.namespace) if obj.namespace)
        return _combined(levels, own)

    def can_tell(self, pod: Object) -> bool:
        """Whether it is known where a pod may go. It is not for a moment after a start."""
        return self.of(pod) is not _UNREAD

    def _namespace_changed(self, old: Object | None, new: Object | None) -> None:
        namespace = new or old
        assert namespace is not None
        before = self._by_namespace.pop(namespace.name, None)
        said = said_by(f"namespace {namespace.name}", new) if new is not None else None
        if said is not None:
            known = before or Level(said.where)
            said = self._by_namespace[namespace.name] = mended(said, known if old is not None else None)
        if said != before:
            pods = self._proxies.by_index(_NAMESPACE, namespace.name)
            tell(self._listeners, [pod.key for pod in pods])
