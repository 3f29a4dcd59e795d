"""CPU time for checking and bundling a P2CODE application, in this process alone."""

import time
from typing import Any

from agent.model.p2code.check import Application, World, check, draft
from agent.model.p2code.detect import Book, calls
from hack.lab.benchmarks.budgets import Budget
from hack.lab.benchmarks.stats import Spread

MANIFESTS = 500
_KINDS = 5
"""Number of kinds: a workload, its service account, ConfigMap, Secret and Service."""
_TIMES = 20
_BUDGET_MS = 50.0
_WORLD = World(sets={"p2code": ("c1",)}, bound=("p2code",), namespaces=("default", "demo"))


def applications(manifests: int = MANIFESTS) -> tuple[list[str], dict[str, Any]]:
    """Run the benchmark. Return the report as lines and as JSON values."""
    spec = _spec(manifests // _KINDS)
    checked, called = [], []
    for _ in range(_TIMES):
        started = time.thread_time()
        found = check(draft(spec, "shop", "global"), _WORLD)
        checked.append((time.thread_time() - started) * 1000)
        assert isinstance(found, Application)
        started = time.thread_time()
        book = Book(found.reading.manifests, {})
        links = sum(len(calls(each, book)) for each in found.reading.workloads)
        called.append((time.thread_time() - started) * 1000)
        assert links == len(found.bundling.bundles)
    count = len(spec["manifests"])
    budget = Budget(f"{count} manifests: check and bundle, p50", Spread.of(checked).p50, "most", _BUDGET_MS, "ms")
    told = f"{budget.name}: {budget.measured:.1f} ms (at most {budget.limit:.0f} ms)"
    lines = [
        f"One application of {count} manifests, {count // _KINDS} workloads, milliseconds of CPU:",
        "",
        f"  {Spread.of(checked).p50:7.1f}  check and bundle (longest {Spread.of(checked).longest:.1f})",
        f"  {Spread.of(called).p50:7.1f}  find out who calls whom (longest {Spread.of(called).longest:.1f})",
        "",
        f"  {'kept' if budget.kept else 'MISSED'}: {told}",
    ]
    figures = {"benchmark": "applications", "manifests": count, "check_ms": budget.measured, "kept": budget.kept}
    return lines, figures


def _spec(workloads: int) -> dict[str, Any]:
    """Return an application in which each workload calls the next one and has its own filter."""
    own = [{"name": f"w{number}", "annotations": ["p2code.filter.region=eu"]} for number in range(workloads)]
    found = [manifest for number in range(workloads) for manifest in _manifests(number, (number + 1) % workloads)]
    return {
        "globalAnnotations": ["p2code.target.managedClusterSet=p2code"],
        "workloadAnnotations": own,
        "manifests": found,
    }


def _manifests(number: int, called: int) -> list[dict[str, Any]]:
    name = f"w{number}"
    container = {
        "name": "main",
        "image": "web:1",
        "envFrom": [{"configMapRef": {"name": name}}],
        "env": [
            {"name": "NEXT", "value": f"http://w{called}:8080/"},
            {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": name, "key": "key"}}},
        ],
    }
    template = {
        "metadata": {"labels": {"app": name, "tier": "web"}},
        "spec": {"serviceAccountName": name, "containers": [container]},
    }
    selector = {"app": name}

    def made(version: str, kind: str, **fields: Any) -> dict[str, Any]:
        return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "demo"}, **fields}

    return [
        made("apps/v1", "Deployment", spec={"selector": {"matchLabels": selector}, "template": template}),
        made("v1", "ServiceAccount"),
        made("v1", "ConfigMap", data={"a": "b", "level": "info"}),
        made("v1", "Secret", data={"key": "dmFsdWU="}),
        made("v1", "Service", spec={"selector": selector, "ports": [{"port": 8080}]}),
    ]
