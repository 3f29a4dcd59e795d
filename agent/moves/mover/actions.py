"""Carries out the actions of a plan in order, equal kinds concurrently, within the limits of all owners."""

import contextlib
import logging
from collections.abc import Iterator, Sequence
from itertools import groupby

from agent.clusters.deps import Deps
from agent.kube.errors import Forbidden, Invalid, StatusError
from agent.model.replacement import stand_in
from agent.moves.mover.announcements import Announcements
from agent.moves.mover.causes import Causes
from agent.moves.mover.facts import OwnerKey
from agent.moves.mover.gather import Gather, Read, left_out
from agent.moves.mover.limits import AGAIN_SECONDS, Limits
from agent.moves.mover.pauses import Pauses
from agent.moves.mover.plan import cause_of
from agent.moves.mover.view import Action, Adopt, Create, Discard, Evict, Fail, Mark, Owner, Restore, Tell
from agent.moves.mover.writer import Writer
from agent.runtime.task_group import side_by_side

log = logging.getLogger(__name__)

FIGURES_SECONDS = 30.0
"""Seconds between two writes of a condition that differ in figures only; a pod without a target has the same."""
_EVICTION = "eviction"
"""Subject of the pause that all evictions of an owner share, as they share a disruption budget. Not for lost pods."""
_AT_ONCE = 8
"""Most creations, marks or conditions of one owner's pods that are written concurrently."""


class Actions:
    """Carries out the actions for all owners, within the `limits` that they share."""

    def __init__(
        self, deps: Deps, causes: Causes, gather: Gather, announcements: Announcements, writer: Writer, limits: Limits
    ) -> None:
        self._pods = deps.proxies.informer.store
        self._recorder = deps.recorder
        self._causes = causes
        self._gather = gather
        self._announcements = announcements
        self._writer = writer
        self._limits = limits
        self._pauses = Pauses()
        self._begins: set[str] = set()
        """UIDs of pods whose moves have begun, and whose replacements may not be in the stores yet."""

    def due(self, key: OwnerKey, actions: Sequence[Action]) -> tuple[list[Action], float]:
        """Return the actions that may be tried now, and the seconds until the next of the others may."""
        left = {id(action): self._left(key[3], action) for action in actions}
        pauses = [seconds for seconds in left.values() if seconds]
        return [action for action in actions if not left[id(action)]], min(pauses, default=0.0)

    def _left(self, owner_uid: str, action: Action) -> float:
        left = self._pauses.left(owner_uid, _about(action))
        if isinstance(action, Tell) and action.has_other_figures:
            return max(left, self._pauses.left(owner_uid, _figures(action)))
        return left

    def forget(self, key: OwnerKey) -> None:
        """Forget an owner without moves."""
        self._pauses.forget(key[3])

    async def carry_out(self, key: OwnerKey, owner: Owner, read: Read, actions: Sequence[Action]) -> float | None:
        """Carry out actions, conditions of pods last. Return the seconds until a re-check, if any. Raises KubeError."""
        again: list[float] = []
        for some in _side_by_side(actions):
            may = some
            if _begins(some[0]):
                may = [action for action in some if self._may_begin(key, action)]
                again += [AGAIN_SECONDS] if len(may) < len(some) else []
            try:
                pauses = await side_by_side([self._write(key, owner, read, action) for action in may])
            finally:
                self._begins -= {action.old.uid for action in may if isinstance(action, Create | Evict)}
            again += [pause for pause in pauses if pause]
        return min(again, default=None)

    def _may_begin(self, key: OwnerKey, action: Action) -> bool:
        """Return whether a move may begin, and count it."""
        assert isinstance(action, Create | Evict)
        rank = (action.old.lost, action.old.priority)
        may = self._limits.may_begin(rank, key, begin=self._begins)
        if may:
            self._begins.add(action.old.uid)
            self._limits.begin(action.old.uid, rank)
        return may

    async def _write(self, key: OwnerKey, owner: Owner, read: Read, action: Action) -> float | None:
        """Carry out one action. Return the seconds until the next try, if any. A refusal affects one pod only."""
        try:
            pause = await self._do(key, owner, read, action)
        except (Forbidden, Invalid) as error:
            await self._refused(key[1], action, error)
            return self._pauses.begin(key[3], _about(action))
        if not pause and not isinstance(action, Mark | Restore | Create):
            # Only a successful adoption ends its pause: a mark of the same pod succeeds even if adoptions are refused.
            self._pauses.end(key[3], _about(action))
        return pause

    async def _refused(self, namespace: str, action: Action, error: StatusError) -> None:
        """Report a refused write. If an adoption is refused, restore the old pod: its ReplicaSet must not delete it."""
        pod = action.pod if isinstance(action, Tell) else action.new if isinstance(action, Discard) else action.old
        what = "the condition" if isinstance(action, Tell) else "a change"
        message = f"{what} of pod {pod.name} or of its replacement is refused: {error.message}; it is tried again"
        log.info("%s/%s: %s", namespace, pod.name, message)
        found = self._pods.get((namespace, pod.name))
        if found is not None:
            self._recorder.event(found.decode(), "Warning", "MoveWaiting", message)
        with contextlib.suppress(Forbidden, Invalid):
            if isinstance(action, Adopt):
                await self._writer.restore(namespace, Restore(action.old))
            if isinstance(action, Mark | Adopt):
                await self._writer.tell(namespace, Tell(action.old, "Held", f"{cause_of(action.old)}; {message}"))

    async def _do(self, key: OwnerKey, owner: Owner, read: Read, action: Action) -> float | None:
        namespace = key[1]
        match action:
            case Create():
                old = self._pods.get((namespace, action.old.name))
                if old is not None:
                    await self._writer.create(
                        owner, read.obj or {}, action, left_out(read, self._announcements.keys(old))
                    )
            case Mark():
                await self._writer.mark(namespace, action)
            case Adopt():
                await self._writer.adopt(read.obj or {}, action, owner)
            case Restore():
                await self._writer.restore(namespace, action)
            case Discard():
                new = self._pods.get((namespace, action.new.name))
                if new is not None and action.astray and action.new.cause == "FailBack":
                    self._causes.put_off(new)
                await self._writer.discard(namespace, action, owner)
            case Fail() | Evict():
                return await self._end(key, owner, read, action)
            case Tell():
                await self._writer.tell(namespace, action)
                if action.reason == "NoRoom":
                    self._pauses.hold(key[3], _figures(action), FIGURES_SECONDS)
        return None

    async def _end(self, key: OwnerKey, owner: Owner, read: Read, action: Fail | Evict) -> float | None:
        """Fail or evict a pod, unless the pod that its owner would create instead would run in the source."""
        old = self._pods.get((key[1], action.old.name))
        maker = read.obj if read.obj is not None or old is None else stand_in(old.decode())
        if not await self._writer.is_elected(owner, maker):
            return self._pauses.begin(key[3], _about(action))
        refused = ""
        match action:
            case Fail():
                await self._writer.fail(key[1], action, owner)
            case Evict():
                refused = await self._writer.evict(key[1], action, owner)
                if not refused:
                    self._gather.evicted(key)
        return self._pauses.begin(key[3], _about(action)) if refused else None


def _side_by_side(actions: Sequence[Action]) -> Iterator[list[Action]]:
    """Split actions into batches that are written concurrently, in order; conditions of pods come last."""
    for kind, some in groupby(sorted(actions, key=lambda action: isinstance(action, Tell)), type):
        most, alike = _AT_ONCE if issubclass(kind, Create | Mark | Tell) else 1, list(some)
        yield from (alike[at : at + most] for at in range(0, len(alike), most))


def _about(action: Action) -> str:
    """Return the subject of an action: refused actions with the same subject share a pause."""
    match action:
        case Fail():
            return f"end of {action.old.uid}"
        case Evict():
            return f"end of {action.old.uid}" if action.old.lost else _EVICTION
        case Tell():
            return f"condition of {action.pod.uid}"
        case Discard():
            return action.new.uid
        case _:
            return action.old.uid


def _figures(action: Tell) -> str:
    return f"figures of {action.pod.uid}"


def _begins(action: Action) -> bool:
    """Return True if the action begins a move."""
    return isinstance(action, Create | Evict)
