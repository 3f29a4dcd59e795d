"""The burst benchmark: a Deployment of N pods plain in one cluster, then elected over a source and two targets.

All clusters, agents and webhooks run in both cases, so both carry the same handicap.
"""

import math
from dataclasses import asdict
from typing import Any

from agent.api import names
from agent.api.kinds import NAMESPACES, NODES, PODS, SERVICE_ACCOUNTS
from agent.kube.client import encode
from agent.sandbox.manifests import NAMESPACE
from agent.sandbox.progress import Progress
from agent.settings import Mode
from hack.benchmarks import placed, profiled, report
from hack.benchmarks.budgets import burst_budgets, ratios
from hack.benchmarks.lab import Lab, open_lab, until
from hack.benchmarks.latency import measure
from hack.benchmarks.manifests import namespace, pod
from hack.benchmarks.run import Load, run

CLUSTERS = ("cd", "us", "eu")
PLAIN = "plain"
NODES_EACH = 10
WARM_UP_PODS = 20
"""Run once in both ways before anything is measured: first connections, first certificates, first caches."""
_SPARE = 1.2


async def burst(
    pods: int, *, profile: bool, progress: Progress, mode: Mode = "ranked", placement: bool = False
) -> tuple[list[str], dict[str, Any]]:
    """The report as lines and as figures; with `placement`, the elected pods run once more, following one.

    Raises BenchError, SandboxError or KubeError.
    """
    reserve, flags = mode == "reserve", placed.FLAGS if placement else ()
    opened = open_lab(
        CLUSTERS, NODES_EACH, pods_per_node(pods), progress, candidate_scheduler=reserve, agent_flags=flags
    )
    async with opened as lab:
        await prepare(lab, profile=profile, mode=mode)
        plain = await run(lab, Load("plain", PLAIN, pods, elected=False))
        elected = await run(lab, Load("elected", NAMESPACE, pods, elected=True, mode=mode))
        latency = await measure(lab, NAMESPACE)
        budgets = burst_budgets(plain, elected, latency, CLUSTERS[0], mode)
        more: list[str] = []
        if placement:
            await placed.follow(lab, NAMESPACE)
            again = await run(lab, Load("placed", NAMESPACE, pods, elected=True, mode=mode))
            budgets.append(placed.budget(elected, again))
            more = ["", placed.line(elected, again)]
        ratio = ratios(plain, elected)
        lines = [
            *report.comparison(plain, elected, ratio),
            *report.processors(plain, elected),
            *report.writes(elected),
            *report.latency_lines(latency),
            *report.budget_lines(budgets, _note(pods, profile=profile)),
            *more,
            *report.disturbance((plain.creation, plain.deletion, elected.creation, elected.deletion)),
        ]
        if profile:
            lines += await profiled.finish(lab.sandbox, CLUSTERS[0])
    figures = {
        "benchmark": "burst",
        "pods": pods,
        "mode": mode,
        "profiled": profile,
        "plain": report.run_figures(plain),
        "elected": report.run_figures(elected),
        "ratios": ratio,
        "status_latency": asdict(latency),
        "budgets": report.budget_figures(budgets),
    }
    return lines, figures


def pods_per_node(pods: int) -> int:
    """So many that each cluster alone could run all of them, with the usual 110 as the least."""
    return max(110, math.ceil(pods * _SPARE / NODES_EACH))


async def prepare(lab: Lab, *, profile: bool = False, mode: Mode = "ranked") -> None:
    """Join the clusters, and run some pods in both ways before anything is measured."""
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
    """Whether there are that many virtual nodes, all of them ready and reachable."""
    nodes = await lab.source.list(NODES, labels=f"{names.PROVIDER_KEY}={names.PROVIDER_VALUE}")
    return sum(_is_ready(node) for node in nodes) == count


def _is_ready(node: dict[str, Any]) -> bool:
    taints = {taint["key"] for taint in node["spec"].get("taints") or ()}
    conditions = node.get("status", {}).get("conditions") or ()
    ready = any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
    return ready and not taints & {names.TAINT_UNREACHABLE, "node.kubernetes.io/not-ready"}


async def elects(lab: Lab) -> bool:
    """Whether a pod that is only tried would be elected: the API server learns of the label with a delay."""
    body = encode(pod("try", NAMESPACE, elected=True))
    answer = await lab.source.session.request("POST", PODS.path(NAMESPACE), params={"dryRun": "All"}, body=body)
    return f'"schedulerName":"{names.SCHEDULER_PROXY}"'.encode() in answer


async def _is_usable(lab: Lab) -> bool:
    return bool(await lab.source.get(SERVICE_ACCOUNTS, "default", PLAIN))


def _note(pods: int, *, profile: bool) -> str:
    notes = []
    if pods != 1000:
        notes.append(f"the budgets are meant for 1,000 pods, this was {pods}")
    if profile:
        notes.append("the profiler slows the source's agent down")
    return "; ".join(notes)
