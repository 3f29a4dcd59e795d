"""A Service of a source with a ready proxy pod, for tests of its selector."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from agent.api import names
from agent.api.kinds import NODES, PODS, SERVICES, TARGETS
from agent.api.names import PREFIX
from agent.kube.errors import NotFound
from agent.model.proxypod import proxy_pod
from tests.controllers.pair import Pair
from tests.controllers.proxies import PROVIDER, elected
from tests.controllers.servicelinks import Links
from tests.controllers.target_links import target
from tests.waiting import until

MINE, OURS = {"app": "web"}, {PREFIX + "app": "web"}


@contextlib.asynccontextmanager
async def in_eu(pair: Pair, **annotations: str) -> AsyncIterator[Links]:
    """Create the Service `web` with one ready proxy pod in the Target `eu`."""
    node = names.virtual_node(pair.namespace, "eu")
    metadata = {"name": node, "labels": {names.PROVIDER_KEY: names.PROVIDER_VALUE}}
    await pair.here.create(NODES, {"metadata": metadata, "spec": {"taints": [PROVIDER]}})
    await pair.here.create(TARGETS, target("eu", pair.namespace))
    links = Links(pair, "")
    try:
        await links.shared_by("True", "EndpointSlices")
        found = {f"multicluster/{key.replace('_', '-')}": value for key, value in annotations.items()}
        spec = {"selector": MINE, "ports": [{"port": 80}]}
        await pair.create(SERVICES, "web", metadata={"annotations": found}, spec=spec)
        await runs(pair, proxy_pod(elected("web", pair.namespace), []), node, "10.2.0.1")
        yield links
    finally:
        with contextlib.suppress(NotFound):
            await pair.end("web")
        await pair.here.delete(TARGETS, "eu", pair.namespace)
        with contextlib.suppress(NotFound):
            await pair.here.delete(NODES, node)


async def runs(pair: Pair, pod: dict[str, Any], node: str, address: str) -> None:
    """Create a ready pod on a node."""
    pod["spec"]["nodeName"] = node
    await pair.here.create(PODS, pod)
    ready = [{"type": "Ready", "status": "True"}]
    status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": ready}
    await pair.here.patch(PODS, pod["metadata"]["name"], {"status": status}, pair.namespace, sub="status")


async def selects(pair: Pair, selector: dict[str, str]) -> None:
    async def probe() -> bool:
        return bool((await pair.here.get(SERVICES, "web", pair.namespace))["spec"]["selector"] == selector)

    await until(probe, what=f"the selector is {selector}")
