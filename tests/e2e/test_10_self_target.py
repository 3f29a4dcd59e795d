"""Promise 10: pods of cd can also run in cd, if cd is its own target."""

import pytest

from agent.api.kinds import TARGETS
from hack.lab.sandbox.objects import apply
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, condition
from tests.e2e.manifests import DEPLOYMENTS, JOBS


async def home(fleet: Fleet, namespace: str) -> None:
    """Make cd a target of itself for a namespace."""
    await apply(fleet.source, TARGETS, manifests.ours("Target", "cd", namespace, {"self": True}))
    await fleet.ready(namespace, "cd")


async def test_pods_run_at_home_and_abroad(fleet: Fleet, namespace: str) -> None:
    await home(fleet, namespace)
    await fleet.source.create(DEPLOYMENTS, manifests.in_every_target("web", 12), namespace)
    await fleet.running(namespace, "web", 12)
    await fleet.agree(namespace)
    delegates = await fleet.delegates(namespace)
    assert {cluster for cluster, _ in delegates.values()} == {"cd", "us", "eu"}
    at_home = [pod for cluster, pod in delegates.values() if cluster == "cd"]
    assert all(pod["spec"]["nodeName"].startswith("cd-node-") for pod in at_home)
    assert all(pod["spec"]["schedulerName"] == "default-scheduler" for pod in at_home)
    deployment = await fleet.source.get(DEPLOYMENTS, "web", namespace)
    assert deployment["status"]["replicas"] == 12, "delegates at home must not be counted by their Deployment"
    fleet.census.check(namespace, at_most=12)
    await fleet.source.delete(DEPLOYMENTS, "web", namespace, propagation="Foreground")
    await fleet.until("nothing is left", lambda: fleet.is_empty(namespace), about=namespace)


@pytest.mark.full("A variant with a Job.")
async def test_a_job_pinned_home_completes(fleet: Fleet) -> None:
    async with fleet.namespace(targets=()) as namespace:
        await home(fleet, namespace)
        await fleet.source.create(JOBS, manifests.job("sum", 3, nodeSelector={manifests.REGION: "cd"}), namespace)

        async def complete() -> bool:
            job = await fleet.source.get(JOBS, "sum", namespace)
            return bool(condition(job, "Complete").get("status") == "True" and job["status"]["succeeded"] == 3)

        await fleet.until("the Job completes", complete, about=namespace)
        fleet.census.check(namespace, at_most=3)
