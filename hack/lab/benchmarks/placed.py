"""Cost of a Placement for a burst: the same pods once more, in a namespace whose pods follow one."""

import functools

from agent.api.kinds import (
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    NAMESPACES,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
)
from agent.api.names import SHORT_PREFIX
from agent.api.names.ocm import GLOBAL_SET, PLACEMENT, decision_name
from agent.kube.client import Client
from agent.ranking.placing import read
from hack.lab.benchmarks.budgets import Budget, python_cpu
from hack.lab.benchmarks.lab import Lab, until
from hack.lab.benchmarks.placement import install
from hack.lab.benchmarks.run import Run

FLAGS = ("--discovery-interval=2s",)
"""Flags of agents, which have to discover the kinds of Placements while they run."""
_NAME = "all"


async def follow(lab: Lab, namespace: str) -> None:
    """Make all pods of a namespace follow a Placement that decides for every target."""
    client = lab.source
    await install(client)
    await until("the agent evaluates Placements", functools.partial(_is_served, client))
    for kind, name, spec in (
        (MANAGED_CLUSTER_SET_BINDINGS, GLOBAL_SET, {"clusterSet": GLOBAL_SET}),
        (PLACEMENTS, _NAME, {}),
    ):
        head = {"apiVersion": kind.api_version, "kind": kind.name}
        await client.create_raw(kind, {**head, "metadata": {"name": name, "namespace": namespace}, "spec": spec})
    await until("every target is decided for", functools.partial(_is_decided, client, namespace, len(lab.targets)))
    await client.patch_raw(NAMESPACES, namespace, {"metadata": {"annotations": {SHORT_PREFIX + PLACEMENT: _NAME}}})


async def _is_served(client: Client) -> bool:
    return bool(await client.get_raw(MANAGED_CLUSTER_SETS, GLOBAL_SET))


async def _is_decided(client: Client, namespace: str, count: int) -> bool:
    return len(read.decided(await client.get(PLACEMENT_DECISIONS, decision_name(_NAME, 1), namespace))) == count


def budget(without: Run, placed: Run) -> Budget:
    """Return the limit for the speed of the run with a Placement, relative to the run without."""
    ratio = placed.rate / without.rate
    return Budget("pods/s to Running, following a Placement / without", ratio, "least", 0.97, "")


def line(without: Run, placed: Run) -> str:
    """Return a line with the CPU time of agents and webhooks in both runs; other load distorts it less than the
    speed.
    """
    first, second = (python_cpu(each.creation) / each.pods * 1000 for each in (without, placed))
    return f"Python CPU per pod to create: {first:.1f} ms, following a Placement {second:.1f} ms"
