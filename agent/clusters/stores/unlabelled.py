"""Chaperons of this cluster whose delegates lack labels of this version: made by an earlier version or by Admiralty.

While a namespace of a target has such chaperons, selectors in it use the wire contract's labels, which every
delegate has. If the target's agent is upgraded too, it adds the labels within seconds; otherwise such chaperons
end with their pods. It does not matter whether the proxy pod is bound: a delegate may start before the source
knows that, and selectors must not change with each pod.
"""

from collections.abc import Callable

from agent.api import names
from agent.api.names import delegates
from agent.base.listeners import tell
from agent.clusters.registry import Targets
from agent.clusters.stores.chaperons import Chaperons
from agent.clusters.stores.proxies import ProxyPods
from agent.clusters.target import Target, parent_of
from agent.kube.store import Key, Object

_SERVING = names.LABEL_SERVING.encode()
_LACKING = delegates.ANNOTATION_NEW_LABELS.encode()


class Unlabelled:
    """Index of such chaperons by target and namespace."""

    def __init__(self, targets: Targets, chaperons: Chaperons, proxies: ProxyPods) -> None:
        self._chaperons = chaperons
        self._proxies = proxies.informer.store
        self._in: dict[str, dict[str, dict[Key, Object]]] = {}
        """Such chaperons by virtual node, namespace and key."""
        self._found: list[Callable[[Key], None]] = []
        self._listeners: list[Callable[[tuple[str, str]], None]] = []
        self._stops: dict[str, Callable[[], None]] = {}
        targets.on_attach(self._attached)
        targets.on_detach(self._detached)

    def any(self, target: Target, namespace: str | None = None) -> bool:
        """Return whether a namespace of a target, or (None) the whole target, has such chaperons."""
        found = self._in.get(target.node_name, {})
        spaces = found.values() if namespace is None else (found.get(namespace, {}),)
        return any(self._counts(chaperon) for space in spaces for chaperon in space.values())

    def on_found(self, listener: Callable[[Key], None]) -> None:
        """Register a listener: called with the key of the proxy pod for each new such chaperon."""
        self._found.append(listener)

    def on_turn(self, listener: Callable[[tuple[str, str]], None]) -> None:
        """Register a listener: called with virtual node and namespace at their first such chaperon and after
        their last.
        """
        self._listeners.append(listener)

    def _counts(self, chaperon: Object) -> bool:
        """Return False if a chaperon without cluster UID is another source's: Admiralty made it (ruling 4)."""
        if chaperon.labels.get(names.LABEL_PARENT_CLUSTER_UID):
            return True
        proxy = self._proxies.get(_parent(chaperon))
        return proxy is not None and proxy.uid == chaperon.labels.get(names.LABEL_PARENT_UID)

    def _attached(self, target: Target) -> None:
        node = target.node_name

        def changed(old: Object | None, new: Object | None) -> None:
            if new is not None and self._chaperons.is_ours(new) and not _is_labelled(new):
                space = self._in.setdefault(node, {}).setdefault(new.namespace, {})
                is_new, space[new.key] = new.key not in space, new
                if is_new:
                    tell(self._found, _parent(new))
                if is_new and len(space) == 1:
                    tell(self._listeners, (node, new.namespace))
            elif old is not None and node in self._in:
                self._drop(target, old)

        self._stops[node] = target.chaperons.subscribe(changed)

    def _drop(self, target: Target, chaperon: Object) -> None:
        space = self._in[target.node_name].get(chaperon.namespace, {})
        if space.pop(chaperon.key, None) is not None and not self.any(target, chaperon.namespace):
            tell(self._listeners, (target.node_name, chaperon.namespace))

    def _detached(self, target: Target) -> None:
        stop = self._stops.pop(target.node_name, None)
        if stop is not None:
            stop()
        self._in.pop(target.node_name, None)


def _parent(chaperon: Object) -> Key:
    namespace, _, name = parent_of(chaperon)[0].partition("/")
    return namespace, name


def _is_labelled(chaperon: Object) -> bool:
    """Return whether the delegate has all labels of this version. A live change may have removed
    `multicluster/serving`.
    """
    return _SERVING in chaperon.raw and (
        _LACKING not in chaperon.raw or delegates.ANNOTATION_NEW_LABELS not in chaperon.annotations
    )
