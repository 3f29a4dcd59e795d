"""Which originals of one namespace select a pod that asks. Pure.

Each original has a count of the asking pods that its selector matches; pods with equal labels count as one. A new or
deleted pod is compared once with each selector, a changed selector once with each pod: never all with all.
"""

from collections import Counter
from collections.abc import Callable, Iterator

from agent.kube.store import Object
from agent.ranking.pod_terms import Labels, Selector

Facts = frozenset[tuple[str, str]]
"""Labels of a pod as a value."""
Compile = Callable[[Object], Selector | None]
"""Returns the selector of an original; None if it must never be copied."""


class _Counted:
    """An original as included in the counts."""

    __slots__ = ("count", "selector", "version")

    def __init__(self, version: str, selector: Selector | None) -> None:
        self.version = version
        self.selector = selector
        self.count = 0
        """Distinct labels of asking pods that the selector matches."""

    def matches(self, labels: Labels) -> bool:
        return self.selector is not None and self.selector.matches(labels)


class Selections:
    """Changes are recorded at once and counted by `update`, which must not run concurrently."""

    def __init__(self, compile_selector: Compile) -> None:
        self._compile = compile_selector
        self._pods: dict[str, Facts] = {}
        """Asking pods by name."""
        self._asking: Counter[Facts] = Counter()
        self._moved: dict[Facts, None] = {}
        """Labels whose first asking pod has appeared, or whose last one has disappeared, since the last update."""
        self._stale: dict[str, Object | None] = {}
        """Originals that have changed since the last update; None for one that was deleted."""
        self._included: dict[Facts, Labels] = {}
        """Labels that the counts include."""
        self._counted: dict[str, _Counted] = {}
        self._changed: dict[str, None] = {}

    @property
    def asked(self) -> bool:
        """Return whether any pod asks."""
        return bool(self._pods)

    @property
    def empty(self) -> bool:
        """Return whether nothing is recorded."""
        return not (self._pods or self._moved or self._stale or self._counted or self._changed)

    def pod(self, name: str, labels: Labels | None) -> bool:
        """Record an asking pod with its labels, None if it does not ask. Return True if that is a change."""
        facts = frozenset(labels.items()) if labels is not None else None
        before = self._pods.pop(name, None)
        if facts is not None:
            self._pods[name] = facts
        if facts == before:
            return False
        if before is not None:
            self._asking[before] -= 1
            if not self._asking[before]:
                del self._asking[before]
                self._moved[before] = None
        if facts is not None:
            self._asking[facts] += 1
            if self._asking[facts] == 1:
                self._moved[facts] = None
        return True

    def original(self, name: str, obj: Object | None) -> None:
        """Record an original that has changed; None if it was deleted."""
        self._stale[name] = obj

    def is_current(self, original: Object) -> bool:
        """Return whether the result for an original was computed from this version of it."""
        found = self._counted.get(original.name)
        return found is not None and found.version == original.version

    def may_go(self, name: str) -> bool:
        """Return whether an original may be copied on request."""
        found = self._counted.get(name)
        return found is not None and found.selector is not None

    def selects(self, name: str) -> bool:
        """Return whether an original selects an asking pod."""
        found = self._counted.get(name)
        return found is not None and found.count > 0

    def changed(self) -> list[str]:
        """Return and clear the names of originals that have changed, or whose result has, up to the last update."""
        found, self._changed = list(self._changed), {}
        return found

    def update(self) -> Iterator[None]:
        """Update the counts. Yields after each comparison, so that the caller can yield to the event loop."""
        stale, self._stale = self._stale, {}
        complete = False
        try:
            yield from self._count_pods()
            yield from self._count_originals(stale)
            complete = True
        finally:
            if not complete:
                # Some counts include the change and some do not: the caller records all originals again.
                self._included.clear()
                self._counted.clear()
                self._moved = dict.fromkeys(self._asking)
                self._stale = {**stale, **self._stale}

    def _count_pods(self) -> Iterator[None]:
        moved, self._moved = self._moved, {}
        for facts in moved:
            there = facts in self._asking
            if there == (facts in self._included):
                continue
            if there:
                self._included[facts] = dict(facts)
            labels, step = self._included[facts], 1 if there else -1
            if not there:
                del self._included[facts]
            for name, each in self._counted.items():
                if each.matches(labels):
                    each.count += step
                    if each.count == max(step, 0):
                        self._changed[name] = None
                yield

    def _count_originals(self, stale: dict[str, Object | None]) -> Iterator[None]:
        for name, obj in stale.items():
            self._changed[name] = None
            if obj is None:
                self._counted.pop(name, None)
                continue
            new, old = _Counted(obj.version, self._compile(obj)), self._counted.get(name)
            if old is not None and old.selector == new.selector:
                old.version = new.version
                continue
            for labels in self._included.values():
                new.count += new.matches(labels)
                yield
            self._counted[name] = new
            yield
