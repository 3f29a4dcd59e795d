"""Clusters in which the endpoint of a pod is published."""

from dataclasses import replace
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import ENDPOINT_SLICES, SERVICES
from agent.api.names.links import ANNOTATION_POD_IPS
from agent.clusters.stores.endpoint_refusals import EndpointRefusals
from agent.clusters.stores.unwritten_marks import UnwrittenMarks
from agent.drivers.driver import LOCAL
from agent.drivers.reach import BRIEF_SECONDS, EndpointReach, Reach
from agent.kube.client import encode
from agent.kube.errors import Forbidden
from agent.kube.store import Key, Object
from agent.model.servicemarks import rerouted
from agent.model.servicerule import ANYTHING, Rule, Wish

PLAIN: Any = {"metadata": {"namespace": "shop", "name": "web"}, "spec": {"selector": {"app": "web"}}}
ALONE: Any = {**PLAIN, "metadata": {**PLAIN["metadata"], "annotations": {"multicluster/global": "false"}}}
POD: Any = {
    "metadata": {"namespace": "shop", "name": "web-1", "labels": {"app": "web", "track": "stable"}},
    "spec": {"nodeName": "us"},
    "status": {"podIPs": [{"ip": "10.1.0.7"}]},
}


COUNT = count()


def slice_of(*addresses: str, ready: bool = True, terminating: bool = False) -> Object:
    conditions = {"ready": ready, "terminating": terminating}
    endpoints = [{"addresses": [each], "conditions": conditions} for each in addresses]
    labels = {names.LABEL_SERVICE_NAME: "web"}
    metadata = {"namespace": "shop", "name": "web-x", "uid": f"{next(COUNT)}", "resourceVersion": "1", "labels": labels}
    return Object(ENDPOINT_SLICES, encode({"metadata": metadata, "addressType": "IPv4", "endpoints": endpoints}))


class Clusters:
    """Stub of the cached objects of this cluster and its targets."""

    def __init__(
        self, slices: dict[str, Object], away: tuple[str, ...], unread: tuple[str, ...], unconnected: tuple[str, ...]
    ) -> None:
        self.asked = ANYTHING
        self._slices, self._unread, self._unconnected = slices, unread, unconnected
        self.targets: Any = SimpleNamespace(
            by_node=lambda node: (
                SimpleNamespace(ready=node not in away, is_self=False) if node in ("us", "eu", "de") else None
            )
        )

    def serving(self, namespace: str) -> list[str]:
        return ["us", "eu", "de", *self._unconnected]

    def nodes_of(self, service: Key) -> list[str]:
        return [LOCAL, "eu", *(("us",) if "us" in self._slices else ()), *(("de",) if "de" in self._slices else ())]

    def place(self, node: str, service: Key) -> str | None:
        return node if node in self.nodes_of(service) else None

    def is_synced(self, node: str, namespace: str = "") -> bool:
        return node not in self._unread

    def slices(self, node: str, service: Key) -> list[Object]:
        return [self._slices[node]] if node in self._slices else []

    def rule(self, service: Key) -> Rule:
        return self.asked

    def called(self, node: str) -> tuple[str, ...]:
        return (node,)

    def driver(self, one: str, other: str, service: Key) -> str:
        return "MCS" if "de" in (one, other) else "EndpointSlices"


def asked(
    slices: dict[str, Object],
    service: Any = None,
    *,
    away: tuple[str, ...] = (),
    unread: tuple[str, ...] = (),
    unconnected: tuple[str, ...] = (),
    refusing: tuple[str, ...] = (),
) -> EndpointReach:
    clusters = Clusters(slices, away, unread, unconnected)
    found = EndpointReach.__new__(EndpointReach)
    found._sharing = clusters  # type: ignore[assignment]
    refusals = EndpointRefusals()
    for node in refusing:
        refusals.note(node, ("shop", "web"), [Forbidden(403, "Forbidden", "no")])
    found._deps = SimpleNamespace(  # type: ignore[assignment]
        targets=clusters.targets, unwritten_marks=UnwrittenMarks(), endpoint_refusals=refusals
    )
    found._silent, found._ready = {}, {}
    services = [Object(SERVICES, encode(service or rerouted(PLAIN, switch=True)))]
    found._selecting = SimpleNamespace(  # type: ignore[assignment]
        of=lambda namespace, labels: services if labels.get("app") == "web" else []
    )
    return found


def reach(slices: dict[str, Object], service: Any = None, *, pod: Any = POD, **more: tuple[str, ...]) -> Reach:
    return asked(slices, service, **more).of(pod)


HIDDEN: Any = {**POD, "metadata": {**POD["metadata"], "annotations": {ANNOTATION_POD_IPS: "10.1.0.7"}}, "status": {}}
HAS = slice_of("10.9.9.9", "10.1.0.7")
NOT = slice_of("10.9.9.9")


@pytest.mark.parametrize(
    ("found", "known", "missing", "unseen", "silent"),
    [
        (reach({"us": HAS, "eu": HAS, LOCAL: HAS}), {"us", "eu", LOCAL}, set(), False, False),
        (reach({"us": HAS, "eu": NOT, LOCAL: HAS}), {"us", LOCAL}, {"eu"}, False, False),
        (reach({"us": HAS, LOCAL: HAS}), {"us", LOCAL}, {"eu"}, False, False),
        (reach({"us": slice_of("10.1.0.7", ready=False), "eu": HAS, LOCAL: HAS}), {"eu", LOCAL}, {"us"}, False, False),
        (reach({"eu": NOT, LOCAL: NOT}), set(), {"us", "eu", LOCAL}, False, False),
        (reach({"us": HAS, "eu": NOT, LOCAL: HAS}, away=("eu",)), {"us", LOCAL}, set(), False, True),
        (reach({"us": HAS, "eu": HAS, LOCAL: HAS}, unconnected=("fr",)), {"us", "eu", LOCAL}, set(), False, True),
        (reach({"us": HAS, "eu": NOT, LOCAL: HAS}, unread=("eu",)), {"us", LOCAL}, set(), True, False),
        (reach({"us": HAS, "eu": HAS, LOCAL: HAS, "de": NOT}), {"us", "eu", LOCAL}, set(), True, False),
        (reach({"us": HAS, "eu": HAS, LOCAL: HAS}, pod=HIDDEN), {"us", "eu", LOCAL}, set(), False, False),
        (reach({}, service=ALONE), set(), set(), True, False),
        (
            reach({"us": HAS, "eu": HAS, LOCAL: HAS}, pod={**POD, "status": {}}),
            set(),
            {"us", "eu", LOCAL},
            False,
            False,
        ),
    ],
    ids=[
        "everywhere",
        "not-told",
        "no-slice",
        "not-ready",
        "no-copy",
        "away",
        "not-connected-yet",
        "unread",
        "driver",
        "not-shown-here",
        "alone",
        "no-address",
    ],
)
def test_an_endpoint_is_looked_for_in_every_cluster_that_answers_and_shares_the_service(
    found: Reach, known: set[str], missing: set[str], unseen: bool, silent: bool
) -> None:
    assert replace(found, stuck=frozenset()) == Reach(frozenset(known), frozenset(missing), unseen, silent)


def test_a_cluster_that_refuses_slices_or_has_no_copy_is_known_to_be_stuck() -> None:
    assert reach({"us": HAS, "eu": NOT, LOCAL: HAS}).stuck == set()
    assert reach({"us": HAS, "eu": NOT, LOCAL: HAS}, refusing=("eu",)).stuck == {"eu"}
    assert reach({"us": HAS, "eu": HAS, LOCAL: HAS}, refusing=("eu",)).stuck == set(), "it lists the address"
    assert reach({"eu": NOT, LOCAL: NOT}).stuck == {"us"}, "a Service of another one has the name"


def test_a_target_that_has_just_fallen_silent_is_waited_for_and_one_that_stays_so_is_not() -> None:
    found = asked({"us": HAS, "eu": NOT, LOCAL: HAS}, away=("eu",))
    assert found.of(POD).silent
    found._silent["eu"] -= BRIEF_SECONDS
    assert not found.of(POD).silent
    us, eu, de = (SimpleNamespace(node_name=node, ready=node != "eu", is_self=False) for node in ("us", "eu", "de"))
    found._deps.targets.by_node = {"us": us, "eu": eu, "de": de}.get  # type: ignore[method-assign, assignment]
    found._noticed(eu)  # type: ignore[arg-type]
    assert not found.of(POD).silent, "it has not answered in the meantime"
    eu.ready = True
    found._noticed(eu)  # type: ignore[arg-type]
    eu.ready = False
    assert found.of(POD).silent, "it is another time"


def test_a_terminating_endpoint_is_known_nowhere_though_its_service_publishes_it_as_ready() -> None:
    found = asked({"us": HAS, "eu": HAS, LOCAL: slice_of("10.1.0.7", terminating=True)}).of(POD)
    assert found.known == {"us", "eu"}


@pytest.mark.parametrize(
    ("rule", "want"),
    [
        (ANYTHING, Reach(known=frozenset(("us",)), missing=frozenset((LOCAL, "eu")))),
        # If callers prefer their own cluster, endpoints in other clusters are published as not ready.
        (Rule(affinity="local"), Reach(known=frozenset(("us",)), unseen=True)),
        (Rule((Wish(consumers=frozenset(("eu",))),)), Reach(known=frozenset(("us",)), missing=frozenset(("eu",)))),
        (Rule((Wish(sources=frozenset(("eu",))),)), Reach(known=frozenset(("us",)))),
    ],
)
def test_where_links_tell_nobody_nobody_has_to_know(rule: Rule, want: Reach) -> None:
    found = asked({"us": HAS, "eu": NOT, LOCAL: NOT})
    found._sharing.asked = rule  # type: ignore[attr-defined]
    assert found.of(POD) == want
