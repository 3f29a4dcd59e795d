"""Where the endpoint of a pod is known."""

from types import SimpleNamespace
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import ENDPOINT_SLICES, SERVICES
from agent.drivers.driver import HERE
from agent.drivers.reach import EndpointReach, Reach
from agent.kube.client import encode
from agent.kube.store import Key, Object
from agent.model.service import rerouted

PLAIN: Any = {"metadata": {"namespace": "shop", "name": "web"}, "spec": {"selector": {"app": "web"}}}
ALONE: Any = {**PLAIN, "metadata": {**PLAIN["metadata"], "annotations": {"multicluster/global": "false"}}}
POD: Any = {
    "metadata": {"namespace": "shop", "name": "web-1", "labels": {"app": "web", "track": "stable"}},
    "spec": {"nodeName": "us"},
    "status": {"podIPs": [{"ip": "10.1.0.7"}]},
}


def slice_of(*addresses: str, ready: bool = True) -> Object:
    endpoints = [{"addresses": [each], "conditions": {"ready": ready}} for each in addresses]
    metadata = {"namespace": "shop", "name": "web-x", "labels": {names.LABEL_SERVICE_NAME: "web"}}
    return Object(ENDPOINT_SLICES, encode({"metadata": metadata, "addressType": "IPv4", "endpoints": endpoints}))


class Clusters:
    """Stands for what is read of this cluster and its targets."""

    def __init__(self, slices: dict[str, Object], away: tuple[str, ...], unread: tuple[str, ...]) -> None:
        self._slices, self._unread = slices, unread
        self.targets: Any = SimpleNamespace(
            by_node=lambda node: (
                SimpleNamespace(ready=node not in away, is_self=False) if node in ("us", "eu", "de") else None
            )
        )

    def nodes_of(self, service: Key) -> list[str]:
        return [HERE, "eu", *(("us",) if "us" in self._slices else ()), *(("de",) if "de" in self._slices else ())]

    def is_synced(self, node: str) -> bool:
        return node not in self._unread

    def slices(self, node: str, service: Key) -> list[Object]:
        return [self._slices[node]] if node in self._slices else []

    def driver(self, one: str, other: str) -> str:
        return "MCS" if "de" in (one, other) else "EndpointSlices"


def reach(
    slices: dict[str, Object],
    service: Any = None,
    *,
    away: tuple[str, ...] = (),
    unread: tuple[str, ...] = (),
    pod: Any = POD,
) -> Reach:
    clusters = Clusters(slices, away, unread)
    asked = EndpointReach.__new__(EndpointReach)
    asked._sharing = clusters  # type: ignore[assignment]
    asked._deps = SimpleNamespace(targets=clusters.targets)  # type: ignore[assignment]
    found = Object(SERVICES, encode(service or rerouted(PLAIN, switch=True)))
    asked._selecting = SimpleNamespace(of=lambda namespace, labels: [found])  # type: ignore[assignment]
    return asked.of(pod)


HAS = slice_of("10.9.9.9", "10.1.0.7")
NOT = slice_of("10.9.9.9")


@pytest.mark.parametrize(
    ("found", "known", "missing", "unseen"),
    [
        (reach({"us": HAS, "eu": HAS, HERE: HAS}), {"us", "eu", HERE}, set(), False),
        (reach({"us": HAS, "eu": NOT, HERE: HAS}), {"us", HERE}, {"eu"}, False),
        (reach({"us": HAS, HERE: HAS}), {"us", HERE}, {"eu"}, False),
        (reach({"us": slice_of("10.1.0.7", ready=False), "eu": HAS, HERE: HAS}), {"eu", HERE}, {"us"}, False),
        (reach({"eu": NOT, HERE: NOT}), set(), {"us", "eu", HERE}, False),
        (reach({"us": HAS, "eu": NOT, HERE: HAS}, away=("eu",)), {"us", HERE}, set(), False),
        (reach({"us": HAS, "eu": NOT, HERE: HAS}, unread=("eu",)), {"us", HERE}, set(), True),
        (reach({"us": HAS, "eu": HAS, HERE: HAS, "de": NOT}), {"us", "eu", HERE}, set(), True),
        (reach({}, service=ALONE), set(), set(), True),
        (reach({"us": HAS, "eu": HAS, HERE: HAS}, pod={**POD, "status": {}}), set(), {"us", "eu", HERE}, False),
    ],
    ids=[
        "everywhere",
        "not-told",
        "no-slice",
        "not-ready",
        "no-copy",
        "away",
        "unread",
        "driver",
        "alone",
        "no-address",
    ],
)
def test_an_endpoint_is_looked_for_in_every_cluster_that_answers_and_shares_the_service(
    found: Reach, known: set[str], missing: set[str], unseen: bool
) -> None:
    assert found == Reach(frozenset(known), frozenset(missing), unseen)
