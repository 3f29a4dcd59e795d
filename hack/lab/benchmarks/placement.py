"""Placement benchmark: CPU per evaluation of Placements, delay from a change to the decision, and memory."""

import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from agent.api.crds import ocm
from agent.api.kinds import (
    ADDON_PLACEMENT_SCORES,
    CRDS,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    NAMESPACES,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
    Kind,
)
from agent.api.names.ocm import LABEL_CLUSTER_SET
from agent.base.clock import stamp
from agent.cli.progress import Progress
from agent.kube.client import Client, encode
from agent.kube.compression import PACK_SECONDS, TRIM_PAUSE_SECONDS
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.placement.placements.cel import CelEvaluator
from agent.ranking.placing import read
from agent.ranking.placing.evaluate import candidates, cel_expressions, evaluate
from agent.ranking.placing.inputs import CelVerdicts, PlacementInputs
from agent.runtime.supervisor import Supervisor
from hack.lab.benchmarks import report
from hack.lab.benchmarks.budgets import Budget
from hack.lab.benchmarks.errors import BenchError
from hack.lab.benchmarks.lab import Lab, Phase, lab_in, new_directory, phase, until
from hack.lab.benchmarks.stats import Spread
from hack.lab.sandbox import Sandbox

Raw = dict[str, Any]

CLUSTERS, PLACEMENTS_MANY, FEW, CHOSEN = 1000, 100, 10, 10
"""Number of ManagedClusters; of Placements; of clusters in the delay measurement; of clusters per Placement."""
_STEP = 1000
"""Number of Placements that each of three further steps adds. Bounded caches are full after the first step."""
_TRIES, _EXPIRIES, _RUNS = 20, 5, 20
_LOOP = 200_000
_NAMESPACE, _SET, _FEW_SET = "bench", "bench", "few"
_SOURCE = "cd"
_FLAGS = ("--placement=serve", "--discovery-interval=2s")
_AT_ONCE = 16
_PATIENCE_SECONDS = 300.0
_SETTLE_SECONDS = PACK_SECONDS + TRIM_PAUSE_SECONDS + 10.0
"""Seconds until the agent has compressed its caches and returned free memory."""
_CEL = 'managedCluster.metadata.labels["tier"] == "gold" && managedCluster.status.clusterClaims.size() > 1'
_MOST_CPU = {
    "mode": "Exact",
    "configurations": [{"scoreCoordinate": {"type": "BuiltIn", "builtIn": "ResourceAllocatableCPU"}, "weight": 1}],
}
_BEST_SCORE = {
    "mode": "Exact",
    "configurations": [
        {"scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": "usage", "scoreName": "cpu"}}, "weight": 1}
    ],
}


def cluster(number: int, of: str = _SET) -> Raw:
    """Return a typical ManagedCluster with claims, labels and resources."""
    claims = {"id.k8s.io": f"{number:036}", "kubeversion.open-cluster-management.io": "v1.34.2"}
    claims |= {f"claim-{each}.example": f"value {each}" for each in range(8)}
    labels = {LABEL_CLUSTER_SET: of, "tier": "gold" if number % 2 else "silver", "region": f"r{number % 10}"}
    return {
        "metadata": {"name": f"{of}-{number:04}", "labels": labels, "uid": f"uid-{number}", "resourceVersion": "1"},
        "spec": {"hubAcceptsClient": True},
        "status": {
            "allocatable": {"cpu": str(100 + number), "memory": "640Gi"},
            "capacity": {"cpu": str(100 + number), "memory": "640Gi"},
            "clusterClaims": [{"name": name, "value": value} for name, value in claims.items()],
            "conditions": [],
            "version": {"kubernetes": "v1.34.2"},
        },
    }


def placement(name: str, **spec: Any) -> Raw:
    """Return a Placement."""
    return {"metadata": {"name": name, "namespace": _NAMESPACE, "uid": name}, "spec": spec}


async def placements(progress: Progress) -> tuple[list[str], dict[str, Any]]:
    """Run the benchmark. Return the report as lines and as JSON values.

    Raises BenchError, SandboxError or KubeError.
    """
    speed = machine()
    budgets = [*evaluations(), *await expressions()]
    sandbox = Sandbox(new_directory(), [_SOURCE], "kwok:1", agent_flags=_FLAGS, progress=progress)
    async with lab_in(sandbox, progress) as lab:
        bench = Bench(lab)
        await bench.prepare()
        budgets += await bench.soon()
        found, phases = await bench.many()
        budgets += found
    figures = {
        "benchmark": "placement",
        "machine_ms": speed,
        "budgets": report.budget_figures(budgets),
        "phases": [{"seconds": each.seconds, "cpu": each.cpu, "writes": each.writes} for each in phases],
    }
    note = f"budgets in ms are for a machine on which {_LOOP:,} additions take 10 ms of CPU: here {speed:.0f} ms"
    return [*report.budget_lines(budgets), "", note, *report.disturbance(phases)], figures


async def install(client: Client) -> None:
    """Install the CRDs, and wait until the API server serves them. Raises BenchError."""
    for definition in ocm.crds():
        await client.create_raw(CRDS, definition)
    for kind in (MANAGED_CLUSTERS, PLACEMENTS, PLACEMENT_DECISIONS, MANAGED_CLUSTER_SETS, ADDON_PLACEMENT_SCORES):
        await until(f"{kind} are served", functools.partial(_served, client, kind))


async def _served(client: Client, kind: Kind) -> bool:
    await client.list_raw(kind)
    return True


def machine() -> float:
    """Return the CPU milliseconds of a loop in Python, as a measure of the machine's speed."""
    times = []
    for _ in range(_RUNS):
        started, total = time.thread_time(), 0
        for number in range(_LOOP):
            total += number
        times.append((time.thread_time() - started) * 1000)
    return Spread.of(times).p50


def _fleet(clusters: Iterable[Raw]) -> PlacementInputs:
    binding = {"metadata": {"name": _SET, "namespace": _NAMESPACE}}
    return read.fleet(clusters, [{"metadata": {"name": _SET}}], [binding], [])


def evaluations(clusters: int = CLUSTERS) -> list[Budget]:
    """Measure the CPU time of evaluations in this process; other load on the machine does not count."""
    fleet = _fleet(cluster(number) for number in range(clusters))
    keys = ("region", "tier")
    spread_ = [{"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"} for key in keys]
    selector = {"requiredClusterSelector": {"labelSelector": {"matchLabels": {"tier": "gold"}}}}
    elsewhere = {name: number % 7 for number, name in enumerate(fleet.clusters)}
    kinds = {
        "all of them": placement("all"),
        f"{CHOSEN} of those with a label": placement("some", predicates=[selector], numberOfClusters=CHOSEN),
        "half of them under two hard spread constraints": placement(
            "spread", spreadPolicy={"spreadConstraints": spread_}, numberOfClusters=clusters // 2
        ),
    }
    budgets = []
    for name, each in kinds.items():
        run = functools.partial(
            evaluate, each, decided=frozenset(), elsewhere=elsewhere, cel=CelVerdicts(), now=datetime.now(UTC)
        )
        times = []
        for _ in range(_RUNS):
            fresh = PlacementInputs(fleet.clusters, fleet.sets, fleet.bindings, fleet.scores)
            started = time.thread_time()
            run(fresh)
            times.append((time.thread_time() - started) * 1000)
        what = f"one Placement over {clusters} clusters, {name}, CPU p50"
        budgets.append(Budget(what, Spread.of(times).p50, "most", 15.0, "ms"))
    return budgets


async def expressions() -> list[Budget]:
    """Measure evaluations of CEL expressions that are not cached, while the worker already runs."""
    raws = [cluster(number) for number in range(CLUSTERS)]
    fleet, now = _fleet(raws), datetime.now(UTC)
    asked = {raw["metadata"]["name"]: Object(MANAGED_CLUSTERS, encode(raw)) for raw in raws}
    evaluator, times = CelEvaluator(), []
    try:
        first = {name: asked[name] for name in list(asked)[:1]}
        await evaluator.verdicts(["true"], first, {}, now)
        for number in range(_RUNS):
            selector = {"celSelector": {"celExpressions": [f"{_CEL} && {number} >= 0"]}}
            each = placement("cel", predicates=[{"requiredClusterSelector": selector}])
            started = time.monotonic()
            clusters = {name: asked[name] for name in candidates(each, fleet)}
            verdicts = await evaluator.verdicts(cel_expressions(each), clusters, {}, now)
            outcome = evaluate(each, fleet, decided=frozenset(), elsewhere={}, cel=verdicts, now=now)
            times.append((time.monotonic() - started) * 1000)
            if len(outcome.decided) != CLUSTERS // 2:
                raise BenchError(f"CEL decides {len(outcome.decided)} clusters: {outcome.misconfigured}")
    finally:
        await evaluator.close()
    what = f"one Placement over {CLUSTERS} clusters, CEL cold, time p50"
    return [Budget(what, Spread.of(times).p50, "most", 60.0, "ms")]


@dataclass
class _Watched:
    """Clusters that each Placement has decided, from a watch."""

    informer: Informer

    def __post_init__(self) -> None:
        self._changed = asyncio.Event()
        self.informer.subscribe(lambda old, new: self._changed.set())

    def decided(self, name: str) -> frozenset[str]:
        """Return the decided clusters of one Placement."""
        obj = self.informer.store.get((_NAMESPACE, f"{name}-decision-1"))
        return frozenset(read.decided(obj.decode())) if obj is not None else frozenset()

    async def until(self, what: str, true: Callable[[], bool]) -> float:
        """Return the time at which a condition becomes true. Raises BenchError after a timeout."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while not true():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise BenchError(f"waited {_PATIENCE_SECONDS:.0f} s in vain until {what}") from None
        return time.monotonic()


class Bench:
    """A cluster whose agent evaluates Placements."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._client: Client = lab.source

    async def prepare(self) -> None:
        """Install the CRDs, and create namespace, cluster sets and bindings."""
        await install(self._client)
        await self._make(NAMESPACES, {"metadata": {"name": _NAMESPACE}})
        for name in (_SET, _FEW_SET):
            await self._make(MANAGED_CLUSTER_SETS, {"metadata": {"name": name}, "spec": {}})
            binding = {"metadata": {"name": name, "namespace": _NAMESPACE}, "spec": {"clusterSet": name}}
            await self._make(MANAGED_CLUSTER_SET_BINDINGS, binding)

    async def soon(self) -> list[Budget]:
        """Measure the delay from a change to the decision, with few clusters."""
        for number in range(FEW):
            await self._cluster(number, _FEW_SET)
        names = [f"{_FEW_SET}-{number:04}" for number in range(FEW)]
        gold = {"requiredClusterSelector": {"labelSelector": {"matchLabels": {"tier": "gold"}}}}
        await self._make(PLACEMENTS, placement("soon", clusterSets=[_FEW_SET], predicates=[gold]))
        async with self._watching() as watched:
            await watched.until("a Placement is decided", lambda: len(watched.decided("soon")) == FEW // 2)
            times = []
            for turn in range(_TRIES):
                wanted = "gold" if turn % 2 == 0 else "silver"
                started = time.monotonic()
                await self._client.patch_raw(MANAGED_CLUSTERS, names[0], {"metadata": {"labels": {"tier": wanted}}})
                right = functools.partial(_is, watched, "soon", names[0], wanted == "gold")
                times.append(await watched.until("a label counts", right) - started)
                await asyncio.sleep(0.3)
            late = await self._expiries(watched, names)
        await self._client.delete(PLACEMENTS, "soon", _NAMESPACE)
        await self._client.delete(PLACEMENTS, "expiring", _NAMESPACE)
        spread = Spread.of(times)
        return [
            Budget(f"label to decision, {FEW} clusters, p50 of {_TRIES}", spread.p50, "most", 0.3, "s"),
            Budget("the same, longest", spread.longest, "most", 0.3, "s"),
            Budget(f"score expires to decision, longest of {_EXPIRIES}", max(late), "most", 1.0, "s"),
        ]

    async def _expiries(self, watched: _Watched, names: list[str]) -> list[float]:
        for name, value in zip(names[:2], (90, 10), strict=True):
            await self._make(NAMESPACES, {"metadata": {"name": name}})
            await self._make(ADDON_PLACEMENT_SCORES, {"metadata": {"name": "usage", "namespace": name}})
            await self._score(name, value, None)
        spec = {"clusterSets": [_FEW_SET], "numberOfClusters": 1, "prioritizerPolicy": _BEST_SCORE}
        await self._make(PLACEMENTS, placement("expiring", **spec))
        late = []
        for _ in range(_EXPIRIES):
            best, other = names[:2]
            await self._score(names[0], 90, None)
            await watched.until("the best score counts", functools.partial(_only, watched, best))
            until_ = (datetime.now(UTC) + timedelta(seconds=3)).replace(microsecond=0)
            await self._score(names[0], 90, until_)
            await watched.until("a score expires", functools.partial(_only, watched, other))
            late.append((datetime.now(UTC) - until_).total_seconds())
        return late

    async def many(self) -> tuple[list[Budget], list[Phase]]:
        """Measure many Placements over many clusters when one cluster changes, and the agent's memory for them."""
        empty = await self._settled()
        await _at_once(functools.partial(self._cluster, number, _SET) for number in range(CLUSTERS))
        clusters = await self._settled()
        async with self._watching() as watched:
            await self._placements(watched, 0, PLACEMENTS_MANY)
            best = f"{_SET}-{CLUSTERS - 1:04}"
            sample, started = await self._lab.sample(), time.monotonic()
            gone = {"metadata": {"labels": {LABEL_CLUSTER_SET: "none"}}}
            await self._client.patch_raw(MANAGED_CLUSTERS, best, gone)
            every = [f"many-{number}" for number in range(PLACEMENTS_MANY)]
            right = functools.partial(_all_without, watched, every, best)
            seconds = await watched.until("all Placements have decided again", right) - started
            await asyncio.sleep(2)
            changed = phase(sample, await self._lab.sample())
            placements, first = [], PLACEMENTS_MANY
            for last in (first + _STEP, first + 2 * _STEP, first + 3 * _STEP):
                await self._placements(watched, first, last)
                placements.append(await self._settled())
                first = last
        kib = (clusters - empty) / CLUSTERS, (placements[2] - placements[0]) / (2 * _STEP)
        patched = [count for key, count in changed.writes.items() if "placementdecisions" in key]
        return [
            Budget(f"{PLACEMENTS_MANY} Placements x {CLUSTERS} clusters, one changes", seconds, "most", 2.0, "s"),
            Budget("the same, CPU of the agent", changed.cpu[f"{_SOURCE}/agent"], "most", 2.0, "s"),
            Budget("writes of PlacementDecisions meanwhile", sum(patched), "most", float(PLACEMENTS_MANY), ""),
            Budget("agent's memory for each ManagedCluster", kib[0], "most", 8.0, "KiB"),
            Budget(f"the same for each Placement with {CHOSEN} clusters", kib[1], "most", 6.0, "KiB"),
        ], [changed]

    async def _placements(self, watched: _Watched, first: int, last: int) -> None:
        spec = {"clusterSets": [_SET], "numberOfClusters": CHOSEN, "prioritizerPolicy": _MOST_CPU}
        names = [f"many-{number}" for number in range(first, last)]
        await _at_once(functools.partial(self._make, PLACEMENTS, placement(name, **spec)) for name in names)
        await watched.until("all are decided", lambda: all(len(watched.decided(name)) == CHOSEN for name in names))

    async def _settled(self) -> float:
        """Wait until the agent is idle, and return its memory in KiB."""
        await asyncio.sleep(_SETTLE_SECONDS)
        return float((await self._lab.sample()).usage[f"{_SOURCE}/agent"].rss)

    async def _cluster(self, number: int, of: str) -> None:
        manifest = cluster(number, of)
        status = manifest.pop("status")
        del manifest["metadata"]["uid"], manifest["metadata"]["resourceVersion"]
        await self._make(MANAGED_CLUSTERS, manifest)
        body = {"status": status}
        await self._client.patch_raw(MANAGED_CLUSTERS, manifest["metadata"]["name"], body, sub="status")

    async def _score(self, name: str, value: int, until_: datetime | None) -> None:
        moment = stamp(until_) if until_ is not None else None
        status = {"scores": [{"name": "cpu", "value": value}], "validUntil": moment}
        await self._client.patch_raw(ADDON_PLACEMENT_SCORES, "usage", {"status": status}, name, sub="status")

    async def _make(self, kind: Kind, manifest: Raw) -> None:
        metadata = {key: value for key, value in manifest["metadata"].items() if key != "uid"}
        head = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata}
        await self._client.create_raw(kind, {**manifest, **head})

    @contextlib.asynccontextmanager
    async def _watching(self) -> AsyncIterator[_Watched]:
        informer = Informer(self._client, PLACEMENT_DECISIONS, _NAMESPACE)
        async with Supervisor("bench") as supervisor:
            supervisor.spawn("watch", informer.run)
            await informer.synced.wait()
            yield _Watched(informer)


def _is(watched: _Watched, placement: str, cluster: str, wanted: bool) -> bool:
    return (cluster in watched.decided(placement)) == wanted


def _only(watched: _Watched, cluster: str) -> bool:
    return watched.decided("expiring") == {cluster}


def _all_without(watched: _Watched, placements: Iterable[str], cluster: str) -> bool:
    return all(len(found := watched.decided(name)) == CHOSEN and cluster not in found for name in placements)


async def _at_once(requests: Iterable[Callable[[], Awaitable[None]]]) -> None:
    """Send requests with limited parallelism."""
    left = iter(requests)

    async def work() -> None:
        for request in left:
            await request()

    await asyncio.gather(*(work() for _ in range(_AT_ONCE)))
