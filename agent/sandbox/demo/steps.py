"""What the demo does after the clusters are up, in order: each step with the command a user would type for it."""

import json
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from agent.sandbox.demo import manifests
from agent.sandbox.demo.checks import Check, completed, deployed, empty, joined
from agent.sandbox.demo.fleet import DemoState, spread
from agent.sandbox.demo.manifests import DEPLOYMENT, DEPLOYMENTS, JOB, JOBS
from agent.sandbox.demo.reader import Clients
from agent.sandbox.manifests import NAMESPACE

PODS = 20
SCALED = 40
COMPLETIONS = 6
PARALLELISM = 3
STEP_SECONDS = 120.0
"""Patience with one step. Each takes a few seconds; a busy machine may need many more."""

Action = Callable[[Clients], Awaitable[None]]


class Step(msgspec.Struct, frozen=True):
    """One thing to do, and what must then come true."""

    title: str
    text: str
    command: str
    act: Action
    check: Check
    summary: Callable[[DemoState], str]
    app: str = ""
    """Whose pods to show."""


def steps(source: str, targets: Sequence[str], join: Callable[[], Awaitable[None]]) -> list[Step]:
    """All steps. The Deployment is pinned to the last target; `join` makes Sources, Targets and Secrets."""
    return [_join(source, targets, join), *_deployment(source, targets), *_job(source, targets)]


def _deployment(source: str, targets: Sequence[str]) -> list[Step]:
    pin = targets[-1]
    return [
        Step(
            "A Deployment",
            f"An ordinary Deployment of {PODS} pods in {source}; its pod template is annotated as elected. The webhook"
            " makes its pods proxy pods; the agent sends each to a target, where a delegate runs.",
            "kubectl apply -f web.yaml",
            _create_deployment,
            deployed(PODS, targets),
            _running,
            DEPLOYMENT,
        ),
        Step(
            "Scale up",
            f"The Deployment's controller in {source} knows nothing of other clusters: it just makes more pods.",
            f"kubectl scale deployment {DEPLOYMENT} --replicas={SCALED}",
            _patch(manifests.scaled(SCALED)),
            deployed(SCALED, targets),
            _running,
            DEPLOYMENT,
        ),
        Step(
            f"Pin to {pin}",
            f"A node selector in the pod template asks for nodes of region {pin}: a rolling update moves every pod.",
            f"kubectl patch deployment {DEPLOYMENT} -p '{json.dumps(manifests.pinned(pin))}'",
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
            f"{COMPLETIONS} completions, {PARALLELISM} at a time. The delegates end; {source} counts each one once.",
            "kubectl apply -f count.yaml",
            _create_job,
            completed(COMPLETIONS),
            _counted,
            JOB,
        ),
        Step(
            "Delete",
            "Deployment and Job go, and with them their proxy pods here and the delegates elsewhere.",
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
        f"A Source for {source} in each target; a Target and a Secret with a kubeconfig for each in {source}, whose"
        f" namespace {NAMESPACE} gets the label that lets its pods be elected. A virtual node then stands for each"
        " target.",
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
