"""Invalid gateway data of one cluster, and one refused GatewayPeer, on real API servers."""

import contextlib
from collections.abc import AsyncIterator, Collection
from typing import Any

import pytest
import pytest_asyncio

from agent.api import names
from agent.api.kinds import CLUSTER_SUMMARIES, EVENTS, GATEWAY_PEERS, NAMESPACES, TARGETS
from agent.api.names.links import ANNOTATION_GATEWAY, CA_LIMIT
from agent.clusters.deps import Deps
from agent.kube.errors import NotFound
from agent.model.gatewaylink import Shared, manifest
from agent.model.gatewaytold import Told, write
from agent.services.endpoints import NetworkDriverController
from agent.services.gateways import GatewayPeersController, refused
from tests.controllers.pair import Pair
from tests.controllers.services.test_networkdriver import tell
from tests.controllers.target_links import by_gateway, condition
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

Raw = dict[str, Any]


@pytest_asyncio.fixture
async def joined(pair: Pair) -> AsyncIterator[Pair]:
    """A Target that is reached through gateways."""
    await pair.here.create(TARGETS, by_gateway("eu", pair.namespace))
    try:
        yield pair
    finally:
        for client in (pair.here, pair.there):
            with contextlib.suppress(NotFound):
                await client.delete(CLUSTER_SUMMARIES, names.SUMMARY_NAME)


def wanted(pair: Pair, name: str, **spec: Any) -> Raw:
    """Return a wanted GatewayPeer, with or without a fault in its spec."""
    assert pair.deps is not None
    made = manifest(
        name, pair.namespace, pair.deps.cluster_uid, f"uid-{name}", Told("CA"), [Shared("web", (("http", 80),))], []
    )
    return {**made, "spec": {**made["spec"], **spec}}


class Wanting(GatewayPeersController):
    """Writes the GatewayPeers that a test wants."""

    peers: dict[str, Raw]

    def _wanted(
        self, node: str, namespace: str, only: Collection[str] | None = None, existing: Collection[str] = ()
    ) -> tuple[dict[str, Raw], set[str], set[str]]:
        return {name: dict(each) for name, each in self.peers.items()}, set(), set()


async def written(pair: Pair) -> dict[str, str]:
    """Return the local GatewayPeers with their CA."""
    found = await pair.here.list(GATEWAY_PEERS, pair.namespace)
    return {each["metadata"]["name"]: each["spec"]["ca"] for each in found}


async def test_one_peer_that_is_refused_keeps_no_other_from_being_written_and_is_told_and_tried_again(
    joined: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refused, "RETRY_SECONDS", 1.0)
    pair, controllers = joined, list[Wanting]()
    uid = (await pair.here.get(NAMESPACES, "kube-system"))["metadata"]["uid"]
    eu = names.gateway_peer("eu", uid, names.origin(pair.namespace, "eu"))

    def controller(deps: Deps) -> Wanting:
        pair.deps = deps
        made = Wanting(deps)
        long = "A" * (CA_LIMIT + 1)
        made.peers = {eu: wanted(pair, eu, ca=long), "b": wanted(pair, "b"), "c": wanted(pair, "c", uid="u" * 200)}
        controllers.append(made)
        return made

    async def has(wanted: dict[str, str]) -> bool:
        return await written(pair) == wanted

    async with pair.at_work(controller, gateway=True):
        at = ("", pair.namespace)
        controllers[0].queue.add(at)
        await until(lambda: has({"b": "CA"}), what="the one that is in order is written")

        async def told() -> bool:
            events = await pair.here.list(EVENTS, pair.namespace)
            said = [each for each in events if each["reason"] == refused.REASON]
            about = {each["involvedObject"]["name"] for each in said}
            return about == {"eu"} and all("spec.ca: Too long" in each["message"] for each in said)

        await until(told, what="it is told of at the Target")
        # Changed peers are written although another is refused, and so is the corrected one.
        controllers[0].peers["b"] = wanted(pair, "b", ca="new")
        controllers[0].queue.add(at)
        await until(lambda: has({"b": "new"}))
        controllers[0].peers[eu] = wanted(pair, eu)
        controllers[0].queue.add(at)
        await until(lambda: has({eu: "CA", "b": "new"}))
        # An unwanted peer is deleted although another one is refused.
        del controllers[0].peers["b"]
        controllers[0].queue.add(at)
        await until(lambda: has({eu: "CA"}))


async def test_nonsense_that_a_target_tells_of_its_gateways_is_named_in_its_condition(joined: Pair) -> None:
    pair = joined
    summary = {
        "apiVersion": CLUSTER_SUMMARIES.api_version,
        "kind": CLUSTER_SUMMARIES.name,
        "metadata": {
            "name": names.SUMMARY_NAME,
            "annotations": {
                ANNOTATION_GATEWAY: write(Told("A" * (CA_LIMIT + 1))),
                names.ANNOTATION_CLUSTER_UID: "uid-there",
            },
        },
        "capacity": {},
        "allocatable": {},
    }
    await tell(pair.here, "uid-here", "")
    await pair.there.create(CLUSTER_SUMMARIES, summary)
    async with pair.at_work(NetworkDriverController, gateway=True):
        said = await condition(pair.here, pair.namespace, "eu", "ServicesShared", "False", "NoGateway")
    assert f"ca: it has to have 1 to {CA_LIMIT} characters" in said["message"]
    assert ANNOTATION_GATEWAY in said["message"]
