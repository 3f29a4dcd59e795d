"""`doctor` calls the gateways of GatewayPeers on a real API server, with the rights of a user."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.api.kinds import CLUSTER_SUMMARIES, GATEWAY_PEERS, NAMESPACES, SECRETS
from agent.api.names import SUMMARY_NAME
from agent.api.names.links import ANNOTATION_GATEWAY, GATEWAY_SECRET
from agent.base.clock import SystemClock
from agent.cli.checks.gatewaycalls import GatewayCalls
from agent.cli.checks.view import Verdict
from agent.kube.client import Client
from agent.kube.config import load
from agent.kube.session import Session
from agent.model.gatewaypeer import Peer
from agent.model.gatewaytold import Told, write
from hack.lab.sandbox.gateways import GatewayPod
from tests.controllers.limited import limited
from tests.controllers.pair import Pair
from tests.gateway.lab import address, peer
from tests.waiting import until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]


@pytest.fixture
async def own(pair: Pair) -> AsyncIterator[str]:
    """Yield the local cluster's UID; delete its summary afterwards."""
    yield str((await pair.here.get(NAMESPACES, "kube-system"))["metadata"]["uid"])
    await pair.here.delete(CLUSTER_SUMMARIES, SUMMARY_NAME)


async def tell(pair: Pair, mine: GatewayPod, theirs: GatewayPod) -> None:
    """Create the certificate, the summary, and the GatewayPeer of the other cluster, as agents do."""
    data = {key: value.decode() for key, value in mine.bundle.data().items()}
    await pair.here.create(SECRETS, {"metadata": {"name": GATEWAY_SECRET}, "stringData": data}, pair.namespace)
    told = {ANNOTATION_GATEWAY: write(Told(mine.ca, (mine.at,)))}
    head = {"apiVersion": CLUSTER_SUMMARIES.api_version, "kind": CLUSTER_SUMMARIES.name}
    summary = {**head, "metadata": {"name": SUMMARY_NAME, "annotations": told}, "capacity": {}, "allocatable": {}}
    await pair.here.create(CLUSTER_SUMMARIES, summary)
    spec = {"uid": theirs.uid, "ca": theirs.ca, "addresses": [theirs.at], "services": [], "offered": []}
    await pair.create(GATEWAY_PEERS, "eu", spec=spec)


def _moved(to: Peer, namespace: str) -> Peer:
    return msgspec.structs.replace(to, namespace=namespace)


async def heard(client: Client, pair: Pair) -> tuple[dict[str, Verdict], list[str]]:
    """Return the verdict by peer (empty: the local cluster), and the objects that could not be read."""
    calls = GatewayCalls(client, SystemClock())
    made = await calls.made(await client.list(GATEWAY_PEERS, pair.namespace))
    return {call.peer: call.heard.verdict for call in made}, [what for what, _ in calls.unread]


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_peers_and_own_gateways_are_called_as_far_as_the_user_may_read(
    pair: Pair, own: str, tmp_path: Path
) -> None:
    async with GatewayPod(own, address()) as mine, GatewayPod("uid-eu", address()) as theirs:
        for one, other in ((mine, theirs), (theirs, mine)):
            one.tell([_moved(peer(other), pair.namespace)])
        await tell(pair, mine, theirs)
        await until(lambda: mine.is_ready(f"{pair.namespace}/{theirs.uid}"), what="its gateway reaches the other one")
        assert await heard(pair.here, pair) == ({"eu": Verdict.ADMITTED, "": Verdict.UNASKED}, [])

        # The remote gateway has another CA for this cluster: it refuses the connection.
        theirs.tell([_moved(peer(mine, ca=theirs.ca), pair.namespace)])

        async def refused() -> bool:
            return (await heard(pair.here, pair))[0]["eu"] is Verdict.NOT_ADMITTED

        await until(refused, what="the certificate is refused")

        rules = [
            {"apiGroups": [GATEWAY_PEERS.group], "resources": ["gatewaypeers"], "verbs": ["list"]},
            {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
        ]
        async with (
            limited(pair.clusters[0], pair.here, pair.namespace, tmp_path, rules) as weak,
            Session(load(str(weak.kubeconfig))) as session,
        ):
            found, unread = await heard(Client(session), pair)
        assert found == {"eu": Verdict.UNASKED}
        assert unread == ["whether other clusters' gateways admit this one's", "this cluster's own gateways"]
