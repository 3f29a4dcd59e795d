"""Checks of the steps. Each returns the reasons why it fails, none if the step has succeeded. Pure."""

from collections.abc import Callable, Iterator, Sequence

from agent.api.conditions import is_true
from agent.api.names import PROVIDER_KEY, PROVIDER_VALUE, virtual_node
from hack.lab.demo.fleet import DemoState, Proxy, is_ready, spread
from hack.lab.demo.manifests import DEPLOYMENT, DEPLOYMENTS, JOB, JOBS
from hack.lab.sandbox.manifests import NAMESPACE

Check = Callable[[DemoState], list[str]]


def joined(targets: Sequence[str]) -> Check:
    """Check that every target is ready, and its virtual node, too."""

    def check(fleet: DemoState) -> list[str]:
        missing = []
        for name in targets:
            target, node = fleet.targets.get(name), fleet.virtual_nodes.get(virtual_node(NAMESPACE, name))
            if target is None or not is_ready(target):
                missing.append(f"target {name} is not ready")
            if node is None or not is_ready(node) or not _is_virtual(fleet, virtual_node(NAMESPACE, name)):
                missing.append(f"virtual node {virtual_node(NAMESPACE, name)} is not ready")
        return missing

    return check


def deployed(replicas: int, clusters: Sequence[str], region: str = "") -> Check:
    """Check that the Deployment is rolled out, and that its pods run in each of these clusters and in no other.

    :param region: region of the nodes that all delegates must be on; empty for any
    """

    def check(fleet: DemoState) -> list[str]:
        return [
            *_rolled_out(fleet, replicas),
            *_each_runs_once(fleet, fleet.of(DEPLOYMENT), replicas, "Running"),
            *_where(fleet.of(DEPLOYMENT), clusters, region),
        ]

    return check


def completed(completions: int) -> Check:
    """Check that the Job is complete, and that each completion has one delegate and is counted once."""

    def check(fleet: DemoState) -> list[str]:
        job = fleet.workload(JOBS.name, JOB)
        if job is None:
            return [f"Job {JOB} does not exist"]
        status = job.get("status") or {}
        missing = list(_each_runs_once(fleet, fleet.of(JOB), completions, "Succeeded"))
        if status.get("succeeded", 0) != completions or status.get("failed", 0):
            missing.append(
                f"Job {JOB}: {status.get('succeeded', 0)} of {completions} succeeded, {status.get('failed', 0)} failed"
            )
        if not is_true(status.get("conditions"), "Complete"):
            missing.append(f"Job {JOB} is not complete")
        return missing

    return check


def empty(fleet: DemoState) -> list[str]:
    """Check that no pod, PodChaperon or workload is left in any cluster."""
    left = {
        "proxy pods": len(fleet.proxies),
        "other pods": len(fleet.strangers),
        **{f"PodChaperons in {cluster}": count for cluster, count in fleet.chaperons.items()},
    }
    missing = [f"{count} {what} left" for what, count in left.items() if count]
    if fleet.delegates:
        missing.append(f"delegate pods left: {spread(delegate.cluster for delegate in fleet.delegates)}")
    missing += [f"{kind} {name} is left" for kind, name in sorted(fleet.workloads)]
    return missing


def _rolled_out(fleet: DemoState, replicas: int) -> Iterator[str]:
    deployment = fleet.workload(DEPLOYMENTS.name, DEPLOYMENT)
    if deployment is None:
        yield f"Deployment {DEPLOYMENT} does not exist"
        return
    status = deployment.get("status") or {}
    if status.get("observedGeneration", 0) < deployment["metadata"]["generation"]:
        yield f"Deployment {DEPLOYMENT}: its controller has not seen the change yet"
    for field in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"):
        if status.get(field, 0) != replicas:
            yield f"Deployment {DEPLOYMENT}: status.{field} is {status.get(field, 0)}, not {replicas}"


def _each_runs_once(fleet: DemoState, proxies: Sequence[Proxy], wanted: int, phase: str) -> Iterator[str]:
    if len(proxies) != wanted:
        yield f"{len(proxies)} proxy pods instead of {wanted}"
    if fleet.strangers:
        yield f"not a proxy pod, so the webhook did not see it: {', '.join(fleet.strangers[:3])}"
    if fleet.orphans:
        yield f"{len(fleet.orphans)} delegates without a proxy pod"
    delegates, chaperons = len(fleet.delegates), sum(fleet.chaperons.values())
    if not delegates == chaperons == len(fleet.proxies):
        yield f"{len(fleet.proxies)} proxy pods, {chaperons} PodChaperons, {delegates} delegates: not one each"
    for proxy in proxies:
        yield from (f"pod {proxy.name}: {reason}" for reason in _runs_once(fleet, proxy, phase))


def _runs_once(fleet: DemoState, proxy: Proxy, phase: str) -> Iterator[str]:
    if proxy.deleting:
        yield "is being deleted"
    if not _is_virtual(fleet, proxy.node):
        yield proxy.why or "is not on a virtual node"
    if proxy.phase != phase or proxy.ready != (phase == "Running"):
        yield f"is {proxy.phase or 'new'}{'' if proxy.ready else ', not ready'}"
    if len(proxy.delegates) != 1:
        yield f"has {len(proxy.delegates)} delegates"
        return
    delegate = proxy.delegates[0]
    if delegate.phase != phase or delegate.deleting or not delegate.node:
        yield f"its delegate {delegate.cluster}/{delegate.name} is {delegate.phase or 'new'}"
    if proxy.node and proxy.node != virtual_node(NAMESPACE, delegate.cluster):
        yield f"is on {proxy.node}, and its delegate in {delegate.cluster}"


def _where(proxies: Sequence[Proxy], clusters: Sequence[str], region: str) -> Iterator[str]:
    delegates = [delegate for proxy in proxies for delegate in proxy.delegates]
    used = {delegate.cluster for delegate in delegates}
    if used != set(clusters):
        yield f"delegates run in {', '.join(sorted(used)) or 'no cluster'} instead of {', '.join(sorted(clusters))}"
    elsewhere = [delegate.region or "(no node)" for delegate in delegates if region and delegate.region != region]
    if elsewhere:
        yield f"delegates on nodes outside of region {region}: {spread(elsewhere)}"


def _is_virtual(fleet: DemoState, node: str) -> bool:
    labels = (fleet.virtual_nodes.get(node) or {"metadata": {}})["metadata"].get("labels") or {}
    return bool(labels.get(PROVIDER_KEY) == PROVIDER_VALUE)
