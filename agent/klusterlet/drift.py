"""Changes by other writers to objects of ManifestWorks: metadata watches, and the pauses between repairs."""

from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from agent.api.kinds import Kind
from agent.base.listeners import tell
from agent.klusterlet.manifests import Identity
from agent.kube.metadata import whole_metadata
from agent.kube.store import Object
from agent.runtime.informers import Informers

if TYPE_CHECKING:
    from agent.kube.informer import Informer

MOST_WATCHES = 100
"""Maximum number of watches. Objects beyond them are read every `POLL_SECONDS`."""
POLL_SECONDS = 30.0

_MEMORY_SECONDS = 600.0
_LONGEST_PAUSE = 60.0
_CONTESTED = 3
"""Number of repairs within the memory after which another writer is reported."""

Place = tuple[Kind, str]
"""A kind and a namespace."""
Touched = Callable[[Identity, Object | None], None]
"""Called with a changed object; None if it was deleted."""


class Repairs:
    """Recent repairs of objects. A change is reverted at once, then with pauses of 1, 2, 4 ... 60 seconds."""

    def __init__(self) -> None:
        self._times: dict[Identity, deque[tuple[float, str]]] = {}

    def note(self, identity: Identity, rival: str, now: float) -> None:
        """Record a repair, with the field manager whose change was reverted."""
        self._times.setdefault(identity, deque(maxlen=20)).append((now, rival))

    def pause(self, identity: Identity, now: float) -> float:
        """Return the seconds until an object may be repaired again."""
        times = self._recent(identity, now)
        if not times:
            return 0.0
        return max(0.0, times[-1][0] + min(_LONGEST_PAUSE, 2.0 ** (len(times) - 1)) - now)

    def rival(self, identity: Identity, now: float) -> str:
        """Return the field manager that keeps changing an object; empty if none does."""
        times = self._recent(identity, now)
        last = [rival for _, rival in times][-_CONTESTED:]
        return last[0] if len(last) == _CONTESTED and len(set(last)) == 1 else ""

    def _recent(self, identity: Identity, now: float) -> deque[tuple[float, str]]:
        times = self._times.get(identity, deque())
        while times and now - times[0][0] > _MEMORY_SECONDS:
            times.popleft()
        if not times:
            self._times.pop(identity, None)
        return times


class Watches:
    """Metadata watches on the objects of all ManifestWorks, one for each kind and namespace.

    A watch on a single object of a kind and namespace selects it by name.
    """

    def __init__(self, informers: Informers) -> None:
        self._informers = informers
        self._wanted: dict[str, Mapping[Identity, Kind]] = {}
        self._keys: dict[Identity, set[str]] = {}
        self._names: dict[Place, Counter[str]] = {}
        """Names of the objects in each place, with the number of AppliedManifestWorks that have them."""
        self._running: dict[Place, tuple[Informer, str, Callable[[], None]]] = {}
        """Watches with the selected name; empty for all objects."""
        self._listeners: list[Touched] = []

    def subscribe(self, listener: Touched) -> None:
        """Call for each change of a watched object."""
        self._listeners.append(listener)

    def keys(self, identity: Identity) -> list[str]:
        """Return the AppliedManifestWorks with an object."""
        return list(self._keys.get(identity, ()))

    def want(self, key: str, objects: Mapping[Identity, Kind]) -> None:
        """Watch the objects of an AppliedManifestWork, and no longer those it had before."""
        before = self._wanted.pop(key, {})
        if objects:
            self._wanted[key] = objects
        gone, new = before.items() - objects.items(), objects.items() - before.items()
        for identity, kind in gone:
            names = self._names[kind, identity.namespace]
            names[identity.name] -= 1
            self._names[kind, identity.namespace] = +names
            if identity not in objects:
                self._keys[identity].discard(key)
                if not self._keys[identity]:
                    del self._keys[identity]
        for identity, kind in new:
            self._names.setdefault((kind, identity.namespace), Counter())[identity.name] += 1
            self._keys.setdefault(identity, set()).add(key)
        for place in {(kind, identity.namespace) for identity, kind in gone | new}:
            self._adjust(place)

    def _adjust(self, place: Place) -> None:
        """Start, widen or stop the watch of a place."""
        names = self._names[place]
        if names:
            self._start(place, next(iter(names)) if len(names) == 1 else "")
            return
        del self._names[place]
        if place in self._running:
            self._stop(place)
            waiting = next((each for each in self._names if each not in self._running), None)
            if waiting is not None:
                self._adjust(waiting)

    def _start(self, place: Place, name: str) -> None:
        if place in self._running:
            if self._running[place][1] in ("", name):
                return
            self._stop(place)
        if len(self._running) >= MOST_WATCHES:
            return
        kind, namespace = place
        fields = f"metadata.name={name}" if name else ""
        informer = self._informers.get(kind, namespace, fields=fields, reduce=whole_metadata)

        def changed(old: Object | None, new: Object | None) -> None:
            obj = new or old
            if obj is not None:
                tell(self._listeners, Identity(kind.group, kind.plural, obj.namespace, obj.name), new)

        self._running[place] = (informer, name, informer.subscribe(changed))

    def _stop(self, place: Place) -> None:
        informer, _, unsubscribe = self._running.pop(place)
        unsubscribe()
        self._informers.drop(informer)

    def is_watched(self, identity: Identity, kind: Kind) -> bool:
        """Return whether a watch that works reports changes of an object."""
        found = self._running.get((kind, identity.namespace))
        return found is not None and found[0].synced.is_set() and found[0].error is None

    def get(self, identity: Identity, kind: Kind) -> Object | None:
        """Return the metadata of an object; None if it does not exist or is not watched."""
        found = self._running.get((kind, identity.namespace))
        return found[0].store.get((identity.namespace, identity.name)) if found is not None else None
