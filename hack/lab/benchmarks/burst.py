"""Burst benchmark: a Deployment of N pods plain in one cluster, then elected over a source and its targets.

All clusters, agents and webhooks run in both cases, so that both bear the same load.
"""

import contextlib
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agent.api import names
from agent.api.kinds import NAMESPACES, NODES, PODS, SERVICE_ACCOUNTS
from agent.base.eventloop import EventLoop
from agent.cli.progress import Progress
from agent.kube.client import encode
from agent.settings import Mode
from hack.lab.benchmarks import placed, profiled, report
from hack.lab.benchmarks.budgets import MEANT, burst_budgets, many_budget, ratios
from hack.lab.benchmarks.lab import Lab, open_lab, until
from hack.lab.benchmarks.latency import measure
from hack.lab.benchmarks.manifests import namespace, pod
from hack.lab.benchmarks.owncores import own_cores
from hack.lab.benchmarks.run import Load, Run, run
from hack.lab.sandbox.manifests import NAMESPACE

CLUSTERS = ("cd", "us", "eu")
PLAIN = "plain"
NODES_EACH = 10
WARM_UP_PODS = 20
"""Number of pods that run in both ways before the measurement: they set up connections, certificates and caches."""
_SPARE = 1.2


@dataclass(frozen=True)
class Burst:
    """Parameters of the benchmark."""

    pods: int
    mode: Mode = "ranked"
    placement: bool = False
    """Whether to run the elected pods once more, following a Placement."""
    profile: bool = False
    """Whether to profile the source's agent."""
    own_cores: float | None = None
    """CPU quota of each cluster's processes in cores; None for no limit."""
    pairs: int = 1
    """Number of pairs of runs; the report shows the median pair in full."""
    targets: int = 2
    """Number of clusters in addition to the source."""
    reserve_candidates: int = 0
    """Value of the agent's setting `--reserve-candidates`; 0 for its default."""
    event_loop: EventLoop = "asyncio"
    """Event loop of agents and webhooks."""

    @property
    def clusters(self) -> tuple[str, ...]:
        """Names of the clusters, the source first."""
        return (*CLUSTERS, *(f"t{number}" for number in range(3, self.targets + 1)))[: self.targets + 1]

    @property
    def flags(self) -> tuple[str, ...]:
        """Flags of the agents."""
        bound = (f"--reserve-candidates={self.reserve_candidates}",) if self.reserve_candidates else ()
        return bound + (placed.FLAGS if self.placement else ()) + self.loop

    @property
    def loop(self) -> tuple[str, ...]:
        """Flag that selects the event loop of agents and webhooks."""
        return (f"--event-loop={self.event_loop}",) if self.event_loop != "asyncio" else ()


async def burst(what: Burst, progress: Progress) -> tuple[list[str], dict[str, Any]]:
    """Run the benchmark. Return the report as lines and as JSON values.

    Raises BenchError, SandboxError or KubeError.
    """
    opened = open_lab(
        what.clusters,
        NODES_EACH,
        pods_per_node(what.pods),
        progress,
        candidate_scheduler=what.mode == "reserve",
        agent_flags=what.flags,
        webhook_flags=what.loop,
    )
    with contextlib.ExitStack() as stack:
        cores = stack.enter_context(own_cores(what.own_cores)) if what.own_cores is not None else None
        async with opened as lab:
            if cores is not None:
                for cluster in what.clusters:
                    cores.give(cluster, lab.pids(cluster))
            await prepare(lab, profile=what.profile, mode=what.mode)
            return await _measured(lab, what)


async def _measured(lab: Lab, what: Burst) -> tuple[list[str], dict[str, Any]]:
    few = await run(lab, Load("few", NAMESPACE, MEANT, elected=True, mode=what.mode)) if what.pods > MEANT else None
    pairs = []
    for _ in range(what.pairs):
        plain = await run(lab, Load("plain", PLAIN, what.pods, elected=False))
        elected = await run(lab, Load("elected", NAMESPACE, what.pods, elected=True, mode=what.mode))
        pairs.append((plain, elected))
    plain, elected = median(pairs)
    latency = await measure(lab, NAMESPACE)
    budgets = burst_budgets(plain, elected, latency, CLUSTERS[0], what.mode, own_cores=what.own_cores is not None)
    if few is not None:
        budgets.append(many_budget(few, elected))
    more: list[str] = []
    if what.placement:
        await placed.follow(lab, NAMESPACE)
        again = await run(lab, Load("placed", NAMESPACE, what.pods, elected=True, mode=what.mode))
        budgets.append(placed.budget(elected, again))
        more = ["", placed.line(elected, again)]
    ratio = ratios(plain, elected)
    lines = [
        *(report.pair_lines(pairs) if what.pairs > 1 else ()),
        *report.comparison(plain, elected, ratio),
        *report.processors(plain, elected),
        *report.writes(elected),
        *report.latency_lines(latency),
        *report.budget_lines(budgets, _note(what)),
        *more,
        *report.disturbance(report.phases_of(plain, elected)),
    ]
    if what.profile:
        lines += await profiled.finish(lab.sandbox, CLUSTERS[0])
    figures = {
        "benchmark": "burst",
        "pods": what.pods,
        "mode": what.mode,
        "profiled": what.profile,
        "own_cores": what.own_cores,
        "targets": what.targets,
        "reserve_candidates": what.reserve_candidates,
        "event_loop": what.event_loop,
        "pairs": [ratios(*pair) for pair in pairs],
        "plain": report.run_figures(plain),
        "elected": report.run_figures(elected),
        "ratios": ratio,
        "status_latency": asdict(latency),
        "budgets": report.budget_figures(budgets),
    }
    return lines, figures


def median(pairs: Sequence[tuple[Run, Run]]) -> tuple[Run, Run]:
    """Return the median pair by its ratio of pods per second; of an even number the worse one of both. Pure."""
    return sorted(pairs, key=lambda pair: pair[1].rate / pair[0].rate)[(len(pairs) - 1) // 2]


def pods_per_node(pods: int) -> int:
    """Return a number with which each cluster alone could run all pods; at least the usual 110."""
    return max(110, math.ceil(pods * _SPARE / NODES_EACH))


async def prepare(lab: Lab, *, profile: bool = False, mode: Mode = "ranked") -> None:
    """Join the clusters, and run some pods in both ways as a warm-up."""
    await lab.source.create(NAMESPACES, namespace(PLAIN))
    await lab.sandbox.join()
    if profile:
        await profiled.start(lab.sandbox, CLUSTERS[0])
    await until("every target has a virtual node that takes pods", lambda: takes_pods(lab, len(lab.targets)))
    await until("the webhook elects pods", lambda: elects(lab))
    await until("pods can be created in the plain namespace", lambda: _is_usable(lab))
    for name, where, elected in (("warm-up-plain", PLAIN, False), ("warm-up-elected", NAMESPACE, True)):
        await run(lab, Load(name, where, WARM_UP_PODS, elected, mode), settle=0.0)


async def takes_pods(lab: Lab, count: int) -> bool:
    """Return whether there are `count` virtual nodes, all of them ready and reachable."""
    nodes = await lab.source.list(NODES, labels=f"{names.PROVIDER_KEY}={names.PROVIDER_VALUE}")
    return sum(_is_ready(node) for node in nodes) == count


def _is_ready(node: dict[str, Any]) -> bool:
    taints = {taint["key"] for taint in node["spec"].get("taints") or ()}
    conditions = node.get("status", {}).get("conditions") or ()
    ready = any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
    return ready and not taints & {names.TAINT_UNREACHABLE, "node.kubernetes.io/not-ready"}


async def elects(lab: Lab) -> bool:
    """Return whether a dry run elects a pod: the API server observes the namespace's label with a delay."""
    body = encode(pod("try", NAMESPACE, elected=True))
    answer = await lab.source.session.request("POST", PODS.path(NAMESPACE), params={"dryRun": "All"}, body=body)
    return f'"schedulerName":"{names.SCHEDULER_PROXY}"'.encode() in answer


async def _is_usable(lab: Lab) -> bool:
    return bool(await lab.source.get(SERVICE_ACCOUNTS, "default", PLAIN))


def _note(what: Burst) -> str:
    notes = []
    if what.pods != MEANT:
        notes.append(f"the budgets are meant for {MEANT:,} pods, this was {what.pods}")
    if what.targets != len(CLUSTERS) - 1:
        notes.append(f"the budgets are meant for {len(CLUSTERS) - 1} targets, these were {what.targets}")
    if what.own_cores is not None:
        notes.append(f"the processes of each cluster had {what.own_cores:g} cores of their own")
    if what.profile:
        notes.append("the profiler slows the source's agent down")
    return "; ".join(notes)
