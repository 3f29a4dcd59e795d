"""Latency benchmark: time until a status change of a delegate arrives at its proxy pod in an idle system."""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from agent.api.kinds import CHAPERONS, PODS, Kind
from agent.api.names import chaperon
from agent.kube.client import Client
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.runtime.supervisor import Supervisor
from hack.lab.benchmarks import stats
from hack.lab.benchmarks.errors import BenchError
from hack.lab.benchmarks.lab import Lab, until
from hack.lab.benchmarks.manifests import pod

NAME = "latency"
CONDITION = "bench.example/round"
TRIES = 50
PAUSE_SECONDS = 0.2
"""Seconds between two tries, so that each one meets an idle system."""
_PATIENCE_SECONDS = 10.0


@dataclass(frozen=True)
class Latency:
    """Latencies of a status change.

    `sent` counts from the request to the target's API server, `seen` from the observation on the delegate; both
    end with the observation on the proxy pod. `told` and `home` are the two parts of `seen`: from the delegate
    to the PodChaperon (the target's agent), and from there to the proxy pod (the source's agent).
    """

    tries: int
    sent: stats.Spread
    seen: stats.Spread
    told: stats.Spread
    home: stats.Spread


class _Condition(msgspec.Struct):
    type: str
    message: str = ""


class _Status(msgspec.Struct):
    conditions: list[_Condition] | None = None


class _Pod(msgspec.Struct):
    status: _Status


def conditions(raw: bytes) -> list[str]:
    """Return the rounds in the messages of a pod's benchmark condition."""
    found = msgspec.json.decode(raw, type=_Pod).status.conditions or ()
    return [condition.message for condition in found if condition.type == CONDITION]


class Sightings:
    """Records when each round was first observed on an object; `rounds` reads the rounds from the object."""

    def __init__(
        self,
        client: Client,
        namespace: str | None,
        name: str,
        kind: Kind = PODS,
        rounds: Callable[[bytes], Iterable[str]] = conditions,
    ) -> None:
        self.informer = Informer(client, kind, namespace, fields=f"metadata.name={name}")
        self._rounds = rounds
        self._moments: dict[str, asyncio.Future[float]] = {}
        self.informer.subscribe(self._changed)

    async def of(self, round_: str) -> float:
        """Return the time at which a round is observed. Raises TimeoutError after 10 s."""
        return await asyncio.wait_for(asyncio.shield(self._moment(round_)), _PATIENCE_SECONDS)

    def _moment(self, round_: str) -> asyncio.Future[float]:
        return self._moments.setdefault(round_, asyncio.get_running_loop().create_future())

    def _changed(self, old: Object | None, new: Object | None) -> None:
        now = time.monotonic()
        if new is None:
            return
        for round_ in self._rounds(new.raw):
            moment = self._moment(round_)
            if not moment.done():
                moment.set_result(now)


async def measure(lab: Lab, namespace: str, tries: int = TRIES) -> Latency:
    """Measure the latency. Raises BenchError if a change does not arrive."""
    created = await lab.source.create(PODS, pod(NAME, namespace, elected=True))
    try:
        delegate = chaperon(NAME, created["metadata"]["uid"])
        target = await _target(lab, namespace, delegate)
        stages = (
            Sightings(target, namespace, delegate),
            Sightings(target, namespace, delegate, CHAPERONS),
            Sightings(lab.source, namespace, NAME),
        )
        async with Supervisor("bench") as supervisor:
            for sightings in stages:
                supervisor.spawn("watch", sightings.informer.run)
                await sightings.informer.synced.wait()
            return await _rounds(target, delegate, namespace, stages, tries)
    finally:
        await lab.source.delete(PODS, NAME, namespace)


async def _target(lab: Lab, namespace: str, delegate: str) -> Client:
    """Wait until the proxy pod is Running, and return the client of its target."""

    async def runs() -> bool:
        return bool((await lab.source.get(PODS, NAME, namespace)).get("status", {}).get("phase") == "Running")

    await until("the pod for the latency runs", runs)
    for target in lab.targets:
        if await target.list(PODS, namespace, fields=f"metadata.name={delegate}"):
            return target
    raise BenchError(f"the pod for the latency is Running, but no target has its delegate {delegate}")


async def _rounds(target: Client, delegate: str, namespace: str, stages: Sequence[Sightings], tries: int) -> Latency:
    sent, seen, told, home = (list[float]() for _ in range(4))
    for number in range(tries):
        round_ = f"round {number}"
        condition = {"type": CONDITION, "status": "True", "message": round_}
        began = time.monotonic()
        await target.patch_raw(
            PODS, delegate, {"status": {"conditions": [condition]}}, namespace, sub="status", style="strategic"
        )
        try:
            on_delegate, on_chaperon, on_proxy = [await stage.of(round_) for stage in stages]
        except TimeoutError:
            raise BenchError(f"a change of delegate {delegate} in {target.name} did not reach its proxy") from None
        sent.append(on_proxy - began)
        seen.append(on_proxy - on_delegate)
        told.append(on_chaperon - on_delegate)
        home.append(on_proxy - on_chaperon)
        await asyncio.sleep(PAUSE_SECONDS)
    return Latency(tries, *(stats.Spread.of(times) for times in (sent, seen, told, home)))
