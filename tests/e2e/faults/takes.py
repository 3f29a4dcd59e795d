"""Check that a target avoided by the scheduler receives pods again."""

from tests.e2e import manifests
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import DEPLOYMENTS
from tests.waiting import until


async def takes_pods_again(fleet: Fleet, namespace: str, node: str) -> None:
    """Wait until some of the new pods are bound to a virtual node."""
    made: list[str] = []

    async def probe() -> bool:
        name = f"again-{len(made)}"
        made.append(name)
        await fleet.source.create(DEPLOYMENTS, manifests.spread_out(name, 4), namespace)
        pods = await fleet.running(namespace, name, 4)
        return node in {pod["spec"]["nodeName"] for pod in pods}

    await until(probe, 90.0, what=f"{node} takes pods again")
