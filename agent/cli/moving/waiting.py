"""Waiting until all pods of a move are where they should be, or cannot get there."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Collection

from agent.api.kinds import NAMESPACES, PODS
from agent.cli.moving.fates import Fate
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
from agent.model.podstate import PROXY_PODS
from agent.runtime.informers import Informers
from agent.runtime.supervisor import Supervisor

_LOOK_SECONDS = 0.5
_READ_SECONDS = 5.0
"""Pause between looks at the object itself."""
_SHOWN = 5


class Waiting:
    """Follows one move. `say` is told of every step of a pod."""

    def __init__(self, client: Client, where: Object, world: World, preview: Preview, say: Callable[[str], None]):
        self._client = client
        self._where = where
        self._value = ""
        self._world = world
        self._preview = preview
        self._say = say
        self._told: dict[str, str] = {}
        self._moved: tuple[object, float] = (None, time.monotonic())

    async def until_done(self, fates: Collection[Fate], value: str, seconds: float, stuck: float) -> Progress:
        """Wait until every pod is where it should be and Ready.

        Raises Failed where some never get there, where nothing has happened for `stuck` seconds to those that are left
        and cannot move now, or after `seconds`; KubeError.

        :param value: what the object was told
        """
        stays = {fate.uid for fate in fates if fate.final}
        self._value = value
        now = Progress()
        async with Supervisor("move") as supervisor:
            namespace = self._where.name if self._where.kind is NAMESPACES else self._where.namespace
            pods = Informers(self._client, supervisor).get(PODS, namespace, fields=PROXY_PODS)
            try:
                async with asyncio.timeout(seconds):
                    await self._listed(pods)
                    looked = time.monotonic()
                    while not (now := await self._look(pods, stays)).complete:
                        self._judge(now, stays, stuck)
                        await asyncio.sleep(_LOOK_SECONDS)
                        if time.monotonic() - looked >= _READ_SECONDS:
                            looked = time.monotonic()
                            await self._check()
                    return now
            except TimeoutError:
                raise Failed(f"after {seconds:g} s {now}{_listed(now.waiting.values())}. {_GOES_ON}") from None

    async def _listed(self, informer: Informer) -> None:
        while not informer.synced.is_set():
            if isinstance(informer.error, Forbidden):
                raise informer.error
            await asyncio.sleep(_LOOK_SECONDS / 10)

    async def _look(self, informer: Informer, stays: Collection[str]) -> Progress:
        pods = [
            Pod(pod, await self._preview.choice(pod)) for pod in informer.store if await self._preview.concerns(pod)
        ]
        lines = move_lines(list(informer.store), titles_of(home.target for home in self._world.homes.values()))
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
        # Pods that wait are written all the time: who tries them notes that on them.
        state = (found.done, found.waiting, sorted((pod.raw.uid, pod.raw.node_name) for pod in pods))
        if self._moved[0] != state:
            self._moved = (state, time.monotonic())
        return found

    async def _wanted(self, pods: Collection[Pod]) -> int:
        """How many pods what makes them wants, as far as it says. Raises KubeError."""
        counts: Counter[str] = Counter()
        made: dict[str, Object] = {}
        for pod in pods:
            owner = await self._preview.owner(pod.raw)
            uid = owner.uid if owner is not None else ""
            counts[uid] += pod.counts
            made |= {uid: owner} if owner is not None else {}
        for uid, owner in made.items():
            with contextlib.suppress(NotFound):
                spec = (await self._client.get(owner.kind, owner.name, owner.namespace)).get("spec") or {}
                counts[uid] = max(counts[uid], int(spec.get("replicas") or 0))
        return counts.total()

    def _judge(self, now: Progress, stays: Collection[str], stuck: float) -> None:
        """Raises Failed where nothing is left that may still get there."""
        if now.missing or now.leftovers or len(now.stuck) < len(now.waiting):
            return
        if now.stuck.keys() <= set(stays):
            raise Failed(f"{now}; the others cannot move{_listed(now.stuck.values())}")
        if time.monotonic() - self._moved[1] >= stuck:
            raise Failed(f"nothing has happened for {stuck:g} s: {now}{_listed(now.stuck.values())}. {_GOES_ON}")

    async def _check(self) -> None:
        """Raises Failed where somebody else has said something else meanwhile."""
        where = self._where
        try:
            raw = await self._client.get_raw(where.kind, where.name, where.namespace or None)
        except NotFound:
            raise Failed(f"{where.kind.name} {where.name} is gone") from None
        found = value_of(Object(where.kind, raw))
        if found != self._value:
            raise Failed(f"{where.kind.name} {where.name} says something else of targets by now: {found!r}")


_GOES_ON = "What was written stays, and the agent goes on: `flotilla moves` shows it"


def _listed(found: Collection[str]) -> str:
    shown = sorted(found)
    more = len(shown) - _SHOWN
    words = "; ".join(shown[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")
    return f": {words}" if words else ""
