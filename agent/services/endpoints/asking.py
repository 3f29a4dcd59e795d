"""Reachability of pods: ask the agents of targets at their pod addresses.

Watches  the ClusterSummary of every target, which contains the address.
Writes   nothing: `NetworkDriverController` uses the answers.
An absent target is not asked; its last answer counts.
"""

import asyncio
import time
from collections.abc import Callable

import aiohttp
import msgspec

from agent.base.cancelling import cancelled_only_if_told
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.kube.store import Key
from agent.model import hostport
from agent.model.pod_networks import AgentAnswer, read
from agent.runtime.controller import Controller
from agent.runtime.health import CLUSTER_PATH

ASK_SECONDS = 2.0
TRIES = 3
_ANSWER_LIMIT = 4096


class _Answer(msgspec.Struct):
    cluster: str


_decoder = msgspec.json.Decoder(_Answer)


class AgentAsks(Controller[Key]):
    """Reconciles one Target. Agents are asked concurrently, so that a silent one delays no other."""

    name = "flatness"
    workers = 32

    def __init__(self, deps: Deps, changed: Callable[[Key], None]) -> None:
        super().__init__()
        self._deps = deps
        self._changed = changed
        self._known: dict[Key, tuple[float, AgentAnswer]] = {}
        deps.targets.on_attach(self._attached)
        deps.targets.on_change(lambda target: self.queue.add(target.key))
        deps.targets.on_detach(self._detached)

    def of(self, key: Key) -> AgentAnswer | None:
        """Return the last answer, None before the first."""
        return self._known[key][1] if key in self._known else None

    async def reconcile(self, key: Key) -> float | None:
        """Ask the agent of one target, unless that was done recently."""
        target = self._deps.targets.get(key)
        summary = target.told if target is not None else None
        if target is None or summary is None or target.is_self or not target.ready:
            return None
        health = read(summary.annotations).health
        if not can_be_asked(target, health):
            return None
        next_at, known = self._known.get(key, (0.0, None))
        now = time.monotonic()
        if known is not None and known.health == health and now < next_at:
            return next_at - now
        answer = await _asked(health)
        # Without an answer the last one stays valid.
        last = known.answer if known is not None and known.health == health else ""
        if self._deps.targets.get(key) is not target:
            return None
        pause = self._deps.settings.discovery_interval
        self._known[key] = (time.monotonic() + pause, AgentAnswer(health, answer or last, silent=not answer))
        if known != self._known[key][1]:
            self._changed(key)
        return pause

    def _detached(self, target: Target) -> None:
        self._known.pop(target.key, None)

    def _attached(self, target: Target) -> None:
        if not target.is_self:
            self.watch(target.summaries, lambda summary: (target.key,), required=False)


def can_be_asked(target: Target, health: str) -> bool:
    """Return whether the target's agent publishes an address within the target's pod ranges."""
    return bool(health) and target.ranges.holds(hostport.split(health)[0])


async def _asked(health: str) -> str:
    for _ in range(TRIES):
        answer = await ask(health)
        if answer:
            return answer
    return ""


async def ask(health: str, seconds: float = ASK_SECONDS) -> str:
    """Return the cluster UID from the agent at ADDRESS:PORT; empty if none answers in time."""
    try:
        with cancelled_only_if_told():
            async with (
                asyncio.timeout(seconds),
                aiohttp.ClientSession(
                    connector=aiohttp.TCPConnector(limit=1),
                    timeout=aiohttp.ClientTimeout(total=None),
                    cookie_jar=aiohttp.DummyCookieJar(),
                    auto_decompress=False,
                ) as session,
                session.get(f"http://{health}{CLUSTER_PATH}", allow_redirects=False) as answer,
            ):
                return _decoder.decode(await answer.content.read(_ANSWER_LIMIT)).cluster if answer.status == 200 else ""
    except (TimeoutError, aiohttp.ClientError, OSError, ValueError, msgspec.DecodeError):
        return ""
