"""Choice of the network driver for a pair of clusters."""

from types import SimpleNamespace
from typing import Any

import pytest

from agent.drivers.choice import all_drivers, choose
from agent.drivers.cilium import Cilium, usable
from agent.drivers.driver import Driver, Pair
from agent.drivers.endpointslices import EndpointSlices
from agent.drivers.gateway import Gateway
from agent.drivers.istio import Istio
from agent.drivers.linkerd import Linkerd
from agent.drivers.mcs import McsExports
from agent.drivers.none_and_external import External, Nothing
from agent.drivers.skupper import Skupper
from agent.settings import Settings

CILIUM, MCS = frozenset({"apps", "cilium.io"}), frozenset({"apps", "multicluster.x-k8s.io"})
PLAIN = frozenset({"apps"})


class _Sharing:
    def __init__(self, *, mcs: bool = False) -> None:
        self.deps: Any = SimpleNamespace(cluster_uid="u", settings=Settings(mcs=mcs))


@pytest.mark.parametrize(
    ("annotation", "here", "there", "want"),
    [
        (None, PLAIN, PLAIN, EndpointSlices),
        (None, CILIUM, CILIUM, Cilium),
        (None, PLAIN, CILIUM, EndpointSlices),
        (None, MCS, MCS, McsExports),
        (None, MCS, PLAIN, EndpointSlices),
        (None, MCS | CILIUM, MCS | CILIUM, Cilium),
        ("endpointslices", CILIUM, CILIUM, EndpointSlices),
        ("none", CILIUM, CILIUM, Nothing),
        ("mcs", PLAIN, PLAIN, McsExports),
        ("istio", PLAIN, PLAIN, Istio),
        ("linkerd", PLAIN, PLAIN, Linkerd),
        ("skupper", PLAIN, PLAIN, Skupper),
        ("external/sdwan.example.com", CILIUM, PLAIN, External),
    ],
)
def test_a_driver_is_named_or_the_first_that_both_clusters_can_have(
    annotation: str | None, here: frozenset[str], there: frozenset[str], want: type[Driver]
) -> None:
    assert type(choose(annotation, all_drivers(_Sharing()), Pair(here, there))) is want  # type: ignore[arg-type]


def test_who_implements_the_api_itself_takes_another_driver() -> None:
    drivers = all_drivers(_Sharing(mcs=True))  # type: ignore[arg-type]
    for present in ("", "MCS"):
        assert type(choose(None, drivers, Pair(MCS, MCS), present)) is EndpointSlices


@pytest.mark.parametrize(
    ("annotation", "present", "here", "want"),
    [
        (None, "", PLAIN, None),
        (None, "EndpointSlices", PLAIN, None),
        (None, "", MCS, McsExports),
        (None, "EndpointSlices", MCS, McsExports),
        # The administrator states that pods are reached all the same.
        ("endpointslices", "", PLAIN, EndpointSlices),
        ("none", "EndpointSlices", PLAIN, Nothing),
    ],
)
def test_where_pods_are_not_reached_their_addresses_are_not_told(
    annotation: str | None, present: str, here: frozenset[str], want: type[Driver] | None
) -> None:
    found = choose(annotation, all_drivers(_Sharing()), Pair(here, here, flat=False), present)  # type: ignore[arg-type]
    assert found is None if want is None else type(found) is want


@pytest.mark.parametrize(
    ("annotation", "present", "groups", "flat", "want"),
    [
        (None, "", PLAIN, False, Gateway),
        (None, "EndpointSlices", PLAIN, False, Gateway),
        (None, "", MCS, False, McsExports),
        (None, "Gateway", MCS, False, Gateway),
        # Not for pods that are reached at their own addresses, unless the driver is already in use.
        (None, "", PLAIN, True, EndpointSlices),
        (None, "EndpointSlices", PLAIN, True, EndpointSlices),
        (None, "Gateway", PLAIN, True, Gateway),
        ("gateway", "EndpointSlices", PLAIN, True, Gateway),
        ("endpointslices", "Gateway", PLAIN, False, EndpointSlices),
    ],
)
def test_gateways_are_for_where_pods_are_not_reached(
    annotation: str | None, present: str, groups: frozenset[str], flat: bool, want: type[Driver]
) -> None:
    pair = Pair(groups, groups, flat, gateways=True)
    assert type(choose(annotation, all_drivers(_Sharing()), pair, present)) is want  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("present", "here", "want"),
    [
        ("EndpointSlices", MCS | CILIUM, EndpointSlices),
        ("MCS", MCS | CILIUM, McsExports),
        ("MCS", CILIUM, Cilium),
        ("MCS", PLAIN, EndpointSlices),
        # An administrator chose the driver earlier, and has removed the choice.
        ("Off", PLAIN, EndpointSlices),
        ("Forbidden", MCS, McsExports),
    ],
)
def test_the_present_driver_stays_while_it_works(present: str, here: frozenset[str], want: type[Driver]) -> None:
    assert type(choose(None, all_drivers(_Sharing()), Pair(here, here), present)) is want  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "named", ["wormhole", "external", "external/", "external/NAME", "external/a_b", "external/" + 100 * "a"]
)
def test_an_unknown_driver_is_an_error_that_names_the_others(named: str) -> None:
    with pytest.raises(
        ValueError,
        match="is no driver; choose one of endpointslices, cilium, mcs, istio, linkerd, skupper, gateway, none, "
        "external/NAME",
    ):
        choose(named, all_drivers(_Sharing()), Pair(PLAIN, PLAIN))  # type: ignore[arg-type]


def test_istio_is_chosen_only_where_it_reads_the_other_cluster() -> None:
    served = frozenset({"apps", "networking.istio.io"})

    def chosen(here: frozenset[str], there: frozenset[str], *meshes: str) -> type[Driver]:
        pair = Pair(here, there, meshes=frozenset(meshes))
        return type(choose(None, all_drivers(_Sharing()), pair))  # type: ignore[arg-type]

    assert chosen(served, served, "istio") is Istio
    assert chosen(served | MCS, served | MCS, "istio") is McsExports
    assert chosen(served, served) is chosen(served, PLAIN, "istio") is EndpointSlices


def test_linkerd_is_for_flat_networks_with_links_both_ways() -> None:
    def chosen(flat: bool, *meshes: str) -> type[Driver] | None:
        driver = choose(None, all_drivers(_Sharing()), Pair(PLAIN, PLAIN, flat, meshes=frozenset(meshes)))  # type: ignore[arg-type]
        return type(driver) if driver is not None else None

    assert chosen(True, "linkerd") is Linkerd
    assert chosen(True) is EndpointSlices
    assert chosen(False, "linkerd") is None


def test_cilium_without_its_mesh_is_no_driver() -> None:
    groups = frozenset({"apps", "cilium.io"})
    assert not Cilium().detect(Pair(usable(groups, ["web"]), groups))
    assert Cilium().detect(Pair(usable(groups, ["web", "clustermesh-apiserver"]), groups))
    assert usable(PLAIN, []) == PLAIN


@pytest.mark.parametrize(
    ("driver", "status", "reason"),
    [(Cilium(), "Unknown", "Unverified"), (Istio(), "Unknown", "Unverified"), (Nothing(), "False", "NoPath")],
)
async def test_who_cannot_know_whether_callers_reach_the_others_says_so(
    driver: Driver, status: str, reason: str
) -> None:
    place: Any = None
    connected = await driver.connected(place, "us")
    assert (connected.status, connected.reason) == (status, reason)
    assert connected.message
