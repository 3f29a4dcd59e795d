"""The steps of the demo after the clusters are up, each with the command that a user would type."""

import json
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from hack.lab.demo import manifests
from hack.lab.demo.checks import Check, completed, deployed, empty, joined
from hack.lab.demo.fleet import DemoState, spread
from hack.lab.demo.manifests import DEPLOYMENT, DEPLOYMENTS, JOB, JOBS
from hack.lab.demo.reader import Clients
from hack.lab.sandbox.manifests import NAMESPACE

PODS = 20
SCALED = 40
COMPLETIONS = 6
PARALLELISM = 3
STEP_SECONDS = 120.0
"""Seconds that a step may take. Each takes a few; a busy machine may need many more."""

Action = Callable[[Clients], Awaitable[None]]


class Step(msgspec.Struct, frozen=True):
    """An action, and the check that succeeds when its result is visible in all clusters."""

    title: str
    text: str
    command: str
    act: Action
    check: Check
    summary: Callable[[DemoState], str]
    app: str = ""
    """Application whose pods are shown; empty for none."""


def steps(source: str, targets: Sequence[str], join: Callable[[], Awaitable[None]]) -> list[Step]:
    """Return all steps. The Deployment is pinned to the last target; `join` creates Sources, Targets and Secrets."""
    return [_join(source, targets, join), *_deployment(source, targets), *_job(source, targets)]


def _deployment(source: str, targets: Sequence[str]) -> list[Step]:
    pin = targets[-1]
    return [
        Step(
            "A Deployment",
            f"An ordinary Deployment of {PODS} pods in {source}, with one annotation in its pod template. The webhook"
            " turns each pod into a proxy pod. The agent chooses a target for it; the real pod, its delegate, runs"
            " there.",
            "kubectl apply -f web.yaml",
            _create_deployment,
            deployed(PODS, targets),
            _running,
            DEPLOYMENT,
        ),
        Step(
            "Scale up",
            f"The Deployment controller of {source} does not know the other clusters: it creates more pods, as always.",
            f"kubectl scale deployment {DEPLOYMENT} --replicas={SCALED}",
            _patch(manifests.scaled(SCALED)),
            deployed(SCALED, targets),
            _running,
            DEPLOYMENT,
        ),
        Step(
            f"Pin to {pin}",
            f"A node selector in the pod template selects nodes of region {pin}. A rolling update replaces all pods;"
            f" the new ones run in {pin} only.",
            f"kubectl patch deployment {DEPLOYMENT} -p '{_broken(json.dumps(manifests.pinned(pin)))}'",
            _patch(manifests.pinned(pin)),
            deployed(SCALED, [pin], region=pin),
            _running,
            DEPLOYMENT,
        ),
    ]


def _job(source: str, targets: Sequence[str]) -> list[Step]:
    return [
        Step(
            "A Job",
            f"A Job with {COMPLETIONS} completions, {PARALLELISM} at a time. Delegates complete in the targets; the Job"
            f" controller of {source} counts each one once.",
            "kubectl apply -f count.yaml",
            _create_job,
            completed(COMPLETIONS),
            _counted,
            JOB,
        ),
        Step(
            "Delete",
            f"When the Deployment and the Job are deleted, their proxy pods in {source} and all delegates are deleted.",
            f"kubectl delete deployment/{DEPLOYMENT} job/{JOB}",
            _delete,
            empty,
            lambda fleet: f"no proxy pod, PodChaperon or delegate is left in {', '.join((source, *targets))}",
        ),
    ]


def _join(source: str, targets: Sequence[str], join: Callable[[], Awaitable[None]]) -> Step:
    async def act(clients: Clients) -> None:
        await join()

    return Step(
        "Join them",
        f"Each target gets a Source, which allows {source} to run pods there. {source} gets a Target and a Secret with"
        " a kubeconfig for each of them, and a virtual node then represents it. A label on the namespace"
        f" {NAMESPACE} of {source} allows its pods to run in other clusters.",
        "kubectl get targets,nodes",
        act,
        joined(targets),
        lambda fleet: f"{len(targets)} targets and their virtual nodes are ready",
    )


async def _create_deployment(clients: Clients) -> None:
    await clients.source.create(DEPLOYMENTS, manifests.deployment(PODS))


async def _create_job(clients: Clients) -> None:
    await clients.source.create(JOBS, manifests.job(COMPLETIONS, PARALLELISM))


async def _delete(clients: Clients) -> None:
    await clients.source.delete(DEPLOYMENTS, DEPLOYMENT, NAMESPACE, propagation="Background")
    await clients.source.delete(JOBS, JOB, NAMESPACE, propagation="Background")


def _patch(body: manifests.Manifest) -> Action:
    async def act(clients: Clients) -> None:
        await clients.source.patch(DEPLOYMENTS, DEPLOYMENT, body, NAMESPACE)

    return act


def _running(fleet: DemoState) -> str:
    proxies = fleet.of(DEPLOYMENT)
    clusters = spread(delegate.cluster for proxy in proxies for delegate in proxy.delegates)
    nodes = {(delegate.cluster, delegate.node) for proxy in proxies for delegate in proxy.delegates}
    return f"{len(proxies)} pods Running, one delegate each: {clusters} (on {len(nodes)} nodes)"


def _counted(fleet: DemoState) -> str:
    clusters = spread(delegate.cluster for proxy in fleet.of(JOB) for delegate in proxy.delegates)
    return f"Job {JOB} complete: {COMPLETIONS} of {COMPLETIONS}, each by one delegate: {clusters}"


def _broken(patch: str) -> str:
    """Break a patch into two lines of less than 80 columns; it stays the same JSON."""
    return patch.replace(' {"nodeSelector"', '\n      {"nodeSelector"')
