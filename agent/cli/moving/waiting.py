"""Wait until all pods of a move run in valid targets, or certainly cannot."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any

from agent.api.kinds import NAMESPACES, PODS
from agent.cli.moving.fates import Fate
from agent.cli.moving.following import Following, nobody_makes, wanted
from agent.cli.moving.lines import move_lines, titles_of
from agent.cli.moving.objects import value_of
from agent.cli.moving.preview import Preview
from agent.cli.moving.progress import Pod, Progress, progress
from agent.cli.moving.world import World
from agent.cli.options import Failed
from agent.kube.client import Client
from agent.kube.errors import Forbidden, NotFound
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.model.abridged import abridged
from agent.model.podstate import PROXY_PODS
from agent.runtime.informers import Informers
from agent.runtime.supervisor import Supervisor

Raw = dict[str, Any]

_LOOK_SECONDS = 0.5
_READ_SECONDS = 5.0
"""Poll interval of the moved object."""
_SHOWN = 5


class Waiting:
    """Follows one move. Calls `say` with each step of a pod."""

    def __init__(self, client: Client, where: Object, world: World, preview: Preview, say: Callable[[str], None]):
        self._client = client
        self._where = where
        self._value = ""
        self._world = world
        self._preview = preview
        self._say = say
        self._following = Following(where, world.proxies) if where.kind is PODS else None
        """Set only for a move of one pod: its successor does not inherit the annotation that was written to it."""
        self._makers: dict[str, Object] = {}
        """Owners of the pods by UID, also owners whose pods do not exist for a moment."""
        self._told: dict[str, str] = {}
        self._moved: tuple[object, float] = (None, time.monotonic())

    async def until_done(self, fates: Collection[Fate], value: str, seconds: float, stuck: float) -> str:
        """Wait until every pod is in a valid target and Ready; return a message about the result.

        Raises Failed if some pods can never move, if no stuck pod has progressed for `stuck` seconds, or after
        `seconds`; KubeError.

        :param value: value of the annotation that was written
        """
        stays = {fate.uid for fate in fates if fate.final}
        self._value = value
        now = Progress()
        async with Supervisor("move") as supervisor:
            namespace = self._where.name if self._where.kind is NAMESPACES else self._where.namespace
            pods = Informers(self._client, supervisor).get(PODS, namespace, fields=PROXY_PODS)
            try:
                async with asyncio.timeout(seconds):
                    await listed(pods)
                    for pod in self._world.proxies:
                        if await self._preview.concerns(pod):
                            await self._maker(pod)
                    looked = time.monotonic()
                    while not (now := await self._look(seen := list(pods.store), stays)).complete:
                        if words := await self._is_over(seen, stuck):
                            return words
                        self._judge(now, stays, stuck)
                        await asyncio.sleep(_LOOK_SECONDS)
                        if time.monotonic() - looked >= _READ_SECONDS:
                            looked = time.monotonic()
                            await self._check()
                    await self._see_that_it_is_where_it_was_sent()
                    return str(now)
            except TimeoutError:
                raise Failed(f"after {seconds:g} s {now}{_listed(now.waiting.values())}. {_GOES_ON}") from None

    async def _look(self, seen: Sequence[Object], stays: Collection[str]) -> Progress:
        pods = [Pod(pod, await self._preview.choice(pod)) for pod in await self._meant(seen)]
        lines = move_lines(seen, titles_of(home.target for home in self._world.homes.values()))
        found = progress(pods, self._world.homes, lines, 0, stays)
        if found.complete:
            found = progress(pods, self._world.homes, lines, await self._wanted(pods), stays)
        for uid, words in found.waiting.items():
            if self._told.get(uid) != words:
                self._say(words)
        for pod in pods:
            if pod.raw.uid in self._told and pod.raw.uid not in found.waiting and pod.counts:
                self._say(f"{pod.raw.namespace}/{pod.raw.name} is where it should be ({found.done} of {found.total})")
        self._told = dict(found.waiting)
        # Compares no resourceVersions: the scheduler writes conditions of waiting pods on each attempt.
        state = (found.done, found.waiting, sorted((pod.raw.uid, pod.raw.node_name) for pod in pods))
        if self._moved[0] != state:
            self._moved = (state, time.monotonic())
        return found

    async def _meant(self, seen: Sequence[Object]) -> list[Object]:
        """Select the pods that the move concerns."""
        if self._following is None:
            return [pod for pod in seen if await self._preview.concerns(pod)]
        for old, new in self._following.see(seen):
            self._say(f"{new.namespace}/{new.name} takes the place of {old.name}")
        return self._following.of(seen)

    async def _wanted(self, pods: Collection[Pod]) -> int:
        """Return the number of pods that the owners want, as far as they specify it. Raises KubeError."""
        if self._following is not None:
            return 1
        counts: Counter[str] = Counter()
        for pod in pods:
            counts[await self._maker(pod.raw)] += pod.counts
        for uid, maker in self._makers.items():
            owner_now = await self._read(maker)
            if owner_now is not None:
                counts[uid] = max(counts[uid], wanted(maker.kind, owner_now))
        return counts.total()

    async def _maker(self, pod: Object) -> str:
        """Return the UID of a pod's owner and remember the owner; empty without one."""
        maker = await self._preview.owner(pod)
        if maker is None:
            return ""
        self._makers[maker.uid] = maker
        return maker.uid

    async def _read(self, maker: Object) -> Raw | None:
        """Read an owner again; None if it does not exist, or has another UID."""
        try:
            found: Raw = await self._client.get(maker.kind, maker.name, maker.namespace)
        except NotFound:
            return None
        return found if found["metadata"]["uid"] == maker.uid else None

    async def _is_over(self, seen: Sequence[Object], stuck: float) -> str:
        """Return a message if the pod succeeded before it could move, empty while the wait continues.

        Raises Failed if no owner replaces the pod; KubeError.

        :param seen: pods of the last observation: later ones have not been followed yet
        """
        one = self._following
        if one is None or not one.is_going:
            return ""
        title = f"pod {one.pod.name}"
        if one.has_finished:
            return f"{title} has finished where it was: nothing is left of it that could move"
        maker = await self._preview.owner(one.pod)
        owner = await self._read(maker) if maker is not None else None
        ended = "is gone" if one.is_gone else "ends" if one.pod.deleting else "has failed"
        if why := nobody_makes(one, maker.kind if maker is not None else None, owner, seen):
            raise Failed(f"{title} {ended}, and {why}")
        if one.is_gone and time.monotonic() - self._moved[1] >= stuck:
            raise Failed(f"{title} is gone, and for {stuck:g} s nothing has been made in its place")
        return ""

    async def _see_that_it_is_where_it_was_sent(self) -> None:
        """Raise Failed if the pod's successor is in an invalid target: its owner lacks the written annotation."""
        one = self._following
        if one is None or one.pod.uid == self._where.uid:
            return
        choice, home = await self._preview.choice(self._where), self._world.homes.get(one.pod.node_name)
        if choice is not None and home is not None and choice.misplaced(home):
            reference = one.pod.controller
            maker = f"{reference.kind} {reference.name}" if reference is not None else "what makes it"
            raise Failed(
                f"{one.pod.name}, which was made in the place of {self._where.name}, is in {home.title}: {maker} knows"
                f" nothing of what was said of that pod alone. Say it of {maker}, or of what controls that"
            )

    def _judge(self, now: Progress, stays: Collection[str], stuck: float) -> None:
        """Raise Failed if no remaining pod can still move."""
        if now.missing or now.leftovers or len(now.stuck) < len(now.waiting):
            return
        if now.stuck.keys() <= set(stays):
            raise Failed(f"{now}; the others cannot move{_listed(now.stuck.values())}")
        if time.monotonic() - self._moved[1] >= stuck:
            raise Failed(f"nothing has happened for {stuck:g} s: {now}{_listed(now.stuck.values())}. {_GOES_ON}")

    async def _check(self) -> None:
        """Raise Failed if another writer has changed or deleted the object meanwhile."""
        where, one = self._where, self._following
        if one is not None and (one.is_going or one.pod.uid != where.uid):
            return
        now: Object | None = None
        with contextlib.suppress(NotFound):
            now = Object(where.kind, await self._client.get_raw(where.kind, where.name, where.namespace or None))
        if one is not None and (now is None or now.uid != where.uid):
            # The pod was deleted after the last observation; the next one reports its successor.
            return
        if now is None:
            raise Failed(f"{where.kind.name} {where.name} is gone")
        found = value_of(now)
        if found != self._value:
            raise Failed(f"{where.kind.name} {where.name} says something else of targets by now: {found!r}")


async def listed(informer: Informer) -> None:
    """Wait until an informer has listed its objects. Raises Forbidden."""
    while not informer.synced.is_set():
        if isinstance(informer.error, Forbidden):
            raise informer.error
        await asyncio.sleep(_LOOK_SECONDS / 10)


_GOES_ON = "What was written stays, and the agent goes on: `flotilla moves` shows it"


def _listed(found: Collection[str]) -> str:
    words = abridged(sorted(found), _SHOWN, "; ")
    return f": {words}" if words else ""
