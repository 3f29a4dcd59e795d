"""Links benchmark: 1,000 shared Services over 100 Targets, and more of them while a black hole swallows one Target.

Targets are namespaces of two clusters. Each namespace of the source has a Target in either cluster, and its
share of the Services. A Service has endpoints in one or both clusters, and callers in all. With the driver
`gateway` agents do all work for gateways; stand-ins report all peers as healthy.
"""

import asyncio
import contextlib
import functools
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from agent.api.conditions import find_condition
from agent.api.kinds import PODS, SERVICES, TARGETS
from agent.api.names import ENABLED_VALUE, GLOBAL, LABEL_ENABLED, SHORT_PREFIX
from agent.api.roles import OPTIONAL_FEATURES
from agent.cli.progress import Progress
from agent.kube.client import Client
from agent.kube.errors import AlreadyExists
from agent.kube.store import Key
from agent.runtime.supervisor import Supervisor
from hack.lab.benchmarks import counters, report, stats
from hack.lab.benchmarks.errors import BenchError
from hack.lab.benchmarks.gatewaystandin import StandIn
from hack.lab.benchmarks.joining import authority_of, join
from hack.lab.benchmarks.lab import Lab, Phase, open_lab, phase, until
from hack.lab.benchmarks.linkreport import Found, Work, link_budgets, link_lines, phases
from hack.lab.benchmarks.linktimes import LinkTimes
from hack.lab.benchmarks.manifests import moved, pod
from hack.lab.sandbox.faults import LossyProxy

LINKS, TARGETS_ALL, FEWEST = 1000, 100, 12
CLUSTERS = SOURCE, DARK, NEAR = "cd", "us", "eu"
"""Source and target clusters. The Target of the first namespace in the second cluster is the swallowed one."""
PACE = 5.0
"""Services created per second."""
BATCH = 5
"""One of this many Services belongs to the last batch. Two more batches of that size follow: one with all
Targets healthy, one with the black hole.
"""
ANY = "any"
_PAIRS = {ANY: 4, NEAR: 2, DARK: 2}
"""Number of cluster pairs in the status of a Service's ServiceLink, by the place of its endpoints."""
DRIVERS = ADDRESSES, GATEWAY = "endpointslices", "gateway"
_FLAGS = {
    ADDRESSES: ("--service-links",),
    GATEWAY: ("--service-links", "--gateway", "--gateway-address=192.0.2.9:15443"),
}
_NODES, _ROOM = 3, 110
_AT_ONCE = 8
_PATIENCE_SECONDS = 900.0
_SETTLE_SECONDS = 20.0
_AGENT = f"{SOURCE}/agent"

Raw = dict[str, Any]


async def links(
    size: tuple[int, int], progress: Progress, driver: str = ADDRESSES, pace: float = PACE
) -> tuple[list[str], dict[str, Any]]:
    """Run the benchmark. Return the report as lines and as JSON values.

    Raises BenchError, SandboxError or KubeError.

    :param size: number of links, and of Targets
    :param driver: network driver between all clusters
    :param pace: Services created per second
    """
    if size[0] < FEWEST:
        raise BenchError(f"--links {size[0]}: at least {FEWEST}, for some are created apart from the others")
    async with open_lab(CLUSTERS, _NODES, _ROOM, progress, agent_flags=_FLAGS[driver]) as lab:
        server, authority = authority_of(lab, DARK)
        subnet = lab.sandbox.plan.subnet
        address = f"{subnet.rpartition('.')[0]}.1" if subnet else "127.0.0.1"
        async with LossyProxy(server, authority, address, lambda method, path, body: False) as hole:
            found = await _Bench(lab, hole, *size, driver, pace).run()
    budgets = link_budgets(found)
    figures = {
        "benchmark": "links",
        "driver": driver,
        "links": found.links,
        "targets": found.targets,
        "pace": pace,
        "programmed_seconds": found.programmed,
        "well_seconds": found.well,
        "black_hole_seconds": found.dark,
        "phases": {name: vars(work) for name, work in phases(found).items()},
        "budgets": report.budget_figures(budgets),
    }
    disturbance = report.disturbance([work.phase for work in phases(found).values()])
    return [*link_lines(found, pace), *disturbance, *report.budget_lines(budgets)], figures


def service(key: Key) -> Raw:
    """Return a shared Service; its name shows in which targets its pods are."""
    metadata = {"namespace": key[0], "name": key[1], "annotations": {SHORT_PREFIX + GLOBAL: "true"}}
    spec = {"selector": {_where(key): "here"}, "ports": [{"name": "http", "port": 80}]}
    return {"apiVersion": SERVICES.api_version, "kind": SERVICES.name, "metadata": metadata, "spec": spec}


def endpoint(cluster: str, namespace: str) -> Raw:
    """Return the pod behind all Services of a namespace that have endpoints in a cluster."""
    manifest = moved(pod("web", namespace, elected=False), namespace)
    return manifest | {"metadata": manifest["metadata"] | {"labels": {ANY: "here", cluster: "here"}}}


def services(spaces: list[str], first: int, count: int) -> list[Key]:
    """Return the keys of `count` Services, distributed over namespaces and places of endpoints."""
    kinds = list(_PAIRS)
    numbers = range(first, first + count)
    return [(spaces[each % len(spaces)], f"{kinds[each // len(spaces) % 3]}-{each}") for each in numbers]


def again(services: list[Key], word: str) -> list[Key]:
    """Return keys of as many further Services, in the same namespaces and with endpoints in the same clusters."""
    return [(space, f"{name}-{word}") for space, name in services]


def apart(links: int, spaces: int) -> tuple[int, int]:
    """Return how many Services are created last: as a burst in one namespace, and meanwhile in all other ones."""
    return max(2, links // spaces), max(2, links // BATCH)


def _where(service: Key) -> str:
    return service[1].partition("-")[0]


class _Bench:
    def __init__(self, lab: Lab, hole: LossyProxy, links: int, targets: int, driver: str, pace: float) -> None:
        self._lab = lab
        self._driver = driver
        self._hole = hole
        self._links = links
        self._pace = pace
        self._spaces = [f"team-{number}" for number in range(max(2, targets // 2))]
        self._times = LinkTimes(lab.source, lambda key: _PAIRS[_where(key)], SOURCE, NEAR)
        self._began: dict[Key, float] = {}

    async def run(self) -> Found:
        """Run all phases: join, create, touch, restart, and swallow."""
        await self._prepare()
        own, others = apart(self._links, len(self._spaces))
        first = self._links - own - others
        many = services(self._spaces, 0, first)
        async with Supervisor("bench") as supervisor:
            for each in await self._stand_ins():
                supervisor.spawn("watch of what stands for gateways", each.peers.run)
                supervisor.spawn("what stands for gateways", each.run)
            supervisor.spawn("watch", self._times.informer.run)
            await self._times.informer.synced.wait()
            created = await self._during(functools.partial(self._arrive, many))
            burst = [(self._spaces[0], f"{ANY}-{first + each}") for each in range(own)]
            more = services(self._spaces[1:], first + own, others)
            last = await self._during(functools.partial(self._batch, burst, more))
            touched = await self._during(self._touch)
            restarted = await self._restart()
            well = again(burst, "well"), again(more, "well")
            usual = await self._during(functools.partial(self._batch, *well))
            swallowed = again(burst, "dark"), again(more, "dark")
            self._hole.hears.clear()
            dark = await self._during(functools.partial(self._batch, *swallowed))
        return Found(
            self._links,
            len(self._spaces) * 2,
            self._since(self._times.programmed, [*many, *burst, *more]),
            (self._since(self._times.programmed, well[1]), self._since(self._times.paired, well[0])),
            (self._since(self._times.programmed, swallowed[1]), self._since(self._times.paired, swallowed[0])),
            {"created": created, "last": last, "touched": touched, "restarted": restarted, "well": usual, "dark": dark},
        )

    async def _stand_ins(self) -> list[StandIn]:
        if self._driver != GATEWAY:
            return []
        found = [StandIn(client) for client in self._lab.clients.values()]
        await asyncio.gather(*(each.create() for each in found))
        return found

    async def _prepare(self) -> None:
        allow, driver = (OPTIONAL_FEATURES, GATEWAY) if self._driver == GATEWAY else ((), "")
        lab, slots = self._lab, asyncio.Semaphore(_AT_ONCE)

        async def space(name: str) -> None:
            by = {DARK: self._hole} if name == self._spaces[0] else {}
            async with slots:
                labels = {LABEL_ENABLED: ENABLED_VALUE}
                await join(lab, name, *lab.targets, labels=labels, by=by, allow=allow, driver=driver)
                for client in lab.targets:
                    made = functools.partial(_made, client, endpoint(client.name, name))
                    await until(f"a pod can be made in {client.name}", made, _PATIENCE_SECONDS)

        await asyncio.gather(*map(space, self._spaces))
        await until("every Target shares Services", self._all_share, _PATIENCE_SECONDS)
        await self._settled()

    async def _all_share(self) -> bool:
        targets = await self._lab.source.list(TARGETS)
        said = [find_condition(each.get("status", {}).get("conditions"), "ServicesShared") or {} for each in targets]
        return [each.get("status") for each in said] == ["True"] * 2 * len(self._spaces)

    async def _arrive(self, services: list[Key]) -> None:
        """Create Services at an even pace, and wait until their links are Programmed."""
        start = time.monotonic()
        await asyncio.gather(*(self._create(key, start + turn / self._pace) for turn, key in enumerate(services)))
        await self._all(self._times.programmed, services)

    async def _batch(self, burst: list[Key], services: list[Key]) -> None:
        """Create a burst and meanwhile other Services. If the burst's Target is swallowed, its requests wait."""
        await asyncio.gather(*(self._create(key, 0.0) for key in burst), self._arrive(services))
        await self._all(self._times.paired, burst)

    async def _create(self, key: Key, due: float) -> None:
        await asyncio.sleep(due - time.monotonic())
        self._began[key] = time.monotonic()
        await self._lab.source.create_raw(SERVICES, service(key))

    async def _all(self, seen: dict[Key, float], services: list[Key]) -> None:
        async def complete() -> bool:
            return all(key in seen for key in services)

        try:
            await until("every link works", complete, _PATIENCE_SECONDS)
        except BenchError as error:
            missing = [key for key in services if key not in seen]
            raise BenchError(f"{error}: {len(missing)} do not, such as {'/'.join(missing[0])}") from error

    async def _touch(self) -> None:
        body = {"metadata": {"annotations": {"bench/touched": "true"}}}
        for each in await self._lab.source.list(TARGETS):
            metadata = each["metadata"]
            await self._lab.source.patch_raw(TARGETS, metadata["name"], body, metadata["namespace"])

    async def _restart(self) -> Work:
        """Restart the source's agent and a target's agent. The counters of a process begin at 0."""
        before, began = await self._lab.sample(), time.monotonic()
        for cluster in (NEAR, SOURCE):
            await self._lab.sandbox.restart(cluster, "agent")
        await until("all targets are connected", self._connected, _PATIENCE_SECONDS)
        await self._settled()
        text, after = await self._lab.metrics(SOURCE, "agent"), await self._lab.sample()
        writes = counters.writes(text, "source-agent")
        writes |= counters.writes(await self._lab.metrics(NEAR, "agent"), "target-agent")
        same = {key for key, pid in after.pids.items() if before.pids[key] == pid}
        cpu = {key: use.cpu - (before.usage[key].cpu if key in same else 0) for key, use in after.usage.items()}
        strangers = max(0.0, after.machine - before.machine - sum(cpu.values()))
        found = Phase(time.monotonic() - began, cpu, strangers, writes)
        return Work(found, cpu[_AGENT], _reconciles(text))

    async def _connected(self) -> bool:
        text = await self._lab.metrics(SOURCE, "agent")
        return sum(value for _, value in counters.samples(text, "flotilla_target_ready")) == 2 * len(self._spaces)

    def _since(self, seen: dict[Key, float], services: Iterable[Key]) -> list[float]:
        return [seen[key] - self._began[key] for key in services]

    async def _during(self, work: Callable[[], Awaitable[None]]) -> Work:
        before, told = await self._lab.sample(), _reconciles(await self._lab.metrics(SOURCE, "agent"))
        await work()
        await self._settled()
        text = await self._lab.metrics(SOURCE, "agent")
        found = phase(before, await self._lab.sample())
        return Work(found, found.cpu[_AGENT], stats.grown(told, _reconciles(text)))

    async def _settled(self) -> None:
        await until("no key waits in a queue", self._empty, _PATIENCE_SECONDS)
        await asyncio.sleep(_SETTLE_SECONDS)

    async def _empty(self) -> bool:
        text = await self._lab.metrics(SOURCE, "agent")
        return not sum(value for _, value in counters.samples(text, "flotilla_queue_depth"))


def _reconciles(text: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for labels, value in counters.samples(text, "flotilla_reconciles_total"):
        found[labels["controller"]] = found.get(labels["controller"], 0.0) + value
    return found


async def _made(client: Client, manifest: Raw) -> bool:
    with contextlib.suppress(AlreadyExists):
        await client.create_raw(PODS, manifest)
    return True
