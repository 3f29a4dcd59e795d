"""Promise 64: one annotation of a Deployment sets the targets of its pods and does not change its template."""

from agent.api.names import SHORT_PREFIX
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import DEPLOYMENTS, REPLICASETS
from tests.e2e.test_63_mover import deploy, in_target, watched

REVISION = "deployment.kubernetes.io/revision"
TARGETS = SHORT_PREFIX + "targets"


async def test_a_deployment_goes_where_its_annotation_says_and_back_where_it_is_taken_off(
    fleet: Fleet, namespace: str
) -> None:
    before = await deploy(fleet, namespace, 2)
    async with watched(fleet, namespace) as history:
        for targets, where in (("eu > us", "eu"), ("us", "us"), (None, "eu")):
            await fleet.source.patch(DEPLOYMENTS, "web", {"metadata": {"annotations": {TARGETS: targets}}}, namespace)
            await in_target(fleet, namespace, where, 2)
    assert history.fewest_ready >= 2
    (after,) = await fleet.source.list(REPLICASETS, namespace)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["metadata"]["annotations"][REVISION] == before["metadata"]["annotations"][REVISION]
    await fleet.agree(namespace)
