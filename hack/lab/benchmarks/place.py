"""CPU time of the pure ranking of one pod, in this process: for a burst of equal pods, and for pods that differ."""

import time
from collections.abc import Iterator
from typing import Any

from agent.api.names import SHORT_PREFIX
from agent.api.names.moves import TARGETS
from agent.model.targetchoice import combine, level
from agent.ranking.demand import template_of
from agent.ranking.placed import Decided, Placed, Reference, shares
from agent.ranking.rank import rank
from agent.ranking.scores import Weights
from agent.ranking.snapshot import Free, PodInfo, PodTemplate, Shape, TargetInfo, amounts
from agent.ranking.usage import Usages
from hack.lab.benchmarks.budgets import Budget
from hack.lab.benchmarks.stats import Spread

_BUDGETS_MS = {100: 1.0, 1000: 5.0}
PODS = 500
_REGION = "topology.kubernetes.io/region"
_HOST = "kubernetes.io/hostname"
_TAINT = {"key": "virtual-kubelet.io/provider", "value": "admiralty", "effect": "NoSchedule"}
_APART = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": _HOST, "labelSelector": {}}]}
_SPREAD = {
    "maxSkew": 5,
    "topologyKey": _REGION,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}
_PREFERRED = {
    "preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 5, "preference": {"matchExpressions": [{"key": _REGION, "operator": "In", "values": ["r1"]}]}}
    ]
}
KINDS: dict[str, dict[str, Any]] = {
    "a burst of equal pods": {},
    "equal pods with a preferred region": {"affinity": {"nodeAffinity": _PREFERRED}},
    "equal pods spread over regions": {"topologySpreadConstraints": [_SPREAD]},
    "equal pods that keep others away": {"affinity": {"podAntiAffinity": _APART}},
}
DIFFERENT = "every pod differs"
PLACED, CHOSEN = "equal pods that follow a Placement", "equal pods that name their targets"
_MORE_TARGETS = 100
_MOST = {PLACED: 1.2, CHOSEN: 2.0}
"""Largest CPU time relative to a plain ranking, by kind. The Placement decides for all targets, and the
annotation names all targets in two groups.
"""


def place(pods: int = PODS) -> tuple[list[str], dict[str, Any]]:
    """Run the benchmark. Return the report as lines and as JSON values."""
    figures: dict[str, Any] = {"benchmark": "place", "pods": pods, "rankings": []}
    lines = [f"Ranking of one pod, {pods} pods each, milliseconds of CPU:", ""]
    lines.append(f"  {'targets':>7}  {'p50':>7}  {'p99':>7}  {'longest':>7}  pods")
    budgets: list[Budget] = []
    for targets, limit in _BUDGETS_MS.items():
        plain: Spread | None = None
        for name in (*KINDS, PLACED, CHOSEN, DIFFERENT):
            spread = _measured(targets, name, pods)
            row = {"targets": targets, "pods": name, "p50_ms": spread.p50, "p99_ms": spread.p99}
            figures["rankings"].append(row)
            lines.append(f"  {targets:7}  {spread.p50:7.3f}  {spread.p99:7.3f}  {spread.longest:7.3f}  {name}")
            if name == next(iter(KINDS)):
                budgets.append(Budget(f"ranking over {targets} targets, p99", spread.p99, "most", limit, "ms"))
                plain = spread
            if name in _MOST and plain is not None and targets == _MORE_TARGETS:
                what = f"{name}, all {targets}, p50 / p50 of the first"
                budgets.append(Budget(what, spread.p50 / plain.p50, "most", _MOST[name], "times"))
    lines += ["", *(_told(budget) for budget in budgets)]
    figures["budgets"] = [{"name": b.name, "measured": b.measured, "limit": b.limit, "kept": b.kept} for b in budgets]
    return lines, figures


def _told(budget: Budget) -> str:
    return (
        f"  {'kept' if budget.kept else 'MISSED'}: {budget.name}: {budget.measured:.3f} {budget.unit}"
        f" (at most {budget.limit} {budget.unit})"
    )


def _measured(targets: int, name: str, count: int) -> Spread:
    """Measure rankings in milliseconds of CPU; other load on the machine does not count.

    Each pod is assumed on the best target, and stays undelegated.
    """
    infos = [_target_info(number) for number in range(targets)]
    usages, weights = Usages(), Weights()
    pods = _different() if name == DIFFERENT else _equal(KINDS.get(name, {}))
    decided = (Decided(info.managed_cluster, number) for number, info in enumerate(infos))
    placed = Placed(Reference("web"), shares(decided)) if name == PLACED else None
    named = [info.title for info in infos]
    text = f"{','.join(named[: targets // 2])} > {','.join(named[targets // 2 :])}"
    choice = combine([level("web", {SHORT_PREFIX + TARGETS: text})]) if name == CHOSEN else None
    times: list[float] = []
    for turn in range(count):
        pod_info = next(pods).following(placed).choosing(choice)
        started = time.thread_time()
        order = rank(pod_info, infos, usages, weights, turn=turn).order
        times.append((time.thread_time() - started) * 1000)
        if order:
            usages.put(pod_info, order[0].node_name, assumed=True, undelegated=True)
    return Spread.of(times)


def _equal(constraints: dict[str, Any]) -> Iterator[PodInfo]:
    template = _template(constraints, "100m")
    number = 0
    while True:
        number += 1
        yield PodInfo(template, uid=f"p{number}", labels={"app": "web"})


def _different() -> Iterator[PodInfo]:
    number = 0
    while True:
        number += 1
        yield PodInfo(_template({}, f"{100 + number}m"), uid=f"p{number}", labels={"app": f"web-{number}"})


def _template(constraints: dict[str, Any], cpu: str) -> PodTemplate:
    requests = {"cpu": cpu, "memory": "128Mi"}
    spec = {
        "containers": [{"name": "main", "image": "web:1", "resources": {"requests": requests}}],
        "nodeSelector": {"virtual-kubelet.io/provider": "admiralty"},
        "tolerations": [{"key": "virtual-kubelet.io/provider", "value": "admiralty"}],
        **constraints,
    }
    return template_of("default", spec, {"nodeSelector": {"kubernetes.io/os": "linux"}})


def _target_info(number: int) -> TargetInfo:
    """Return a target with 20 nodes of two shapes that publishes its free capacity."""
    region = f"r{number % 10}"
    node = f"admiralty-c{number}"
    labels = {_REGION: region, _HOST: node, "virtual-kubelet.io/provider": "admiralty"}
    room = amounts({"cpu": "16", "memory": "64Gi", "pods": "110"})
    shapes = tuple(
        Shape({"kubernetes.io/os": "linux", "disk": disk}, (), False, room, 10, _free()) for disk in ("ssd", "hdd")
    )
    total = amounts({"cpu": "320", "memory": "1280Gi", "pods": "2200"})
    return TargetInfo(
        f"c{number}", node, "", True, "", labels, (_TAINT,), False, total, shapes, managed_cluster=f"c{number}"
    )


def _free() -> tuple[Free, ...]:
    return tuple(
        Free(amounts({"cpu": f"{cpu}", "memory": f"{cpu * 4}Gi", "pods": "100"}), 2) for cpu in (15, 12, 8, 4, 1)
    )
