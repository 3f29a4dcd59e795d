"""Mapping of Targets to the ManagedClusters of their clusters."""

from collections.abc import Sequence

import msgspec
import pytest

from agent.api.kinds import TARGETS
from agent.kube.store import Object
from agent.placement.managed_clusters.gather import lead_of
from agent.placement.managed_clusters.naming import (
    Found,
    Key,
    Known,
    Lead,
    candidates,
    consume,
    is_label,
    serve,
    shortened,
)

EU: Key = ("shop", "eu")


def lead(key: str, uid: str = "", **rest: object) -> Lead:
    namespace, _, name = key.rpartition("/")
    return Lead((namespace, name), uid, **rest)  # type: ignore[arg-type]


OWN = "own-uid"
READY = [{"type": "Ready", "status": "True"}]
AWAY = [{"type": "Ready", "status": "False"}]


@pytest.mark.parametrize(
    ("manifest", "want"),
    [
        pytest.param({}, None, id="nothing is known of it"),
        pytest.param({"status": {"conditions": AWAY}}, None, id="it has never been connected"),
        pytest.param({"status": {"conditions": AWAY, "clusterUID": "1"}}, lead("shop/eu", "1"), id="its UID is known"),
        pytest.param({"status": {"conditions": READY}}, lead("shop/eu"), id="its cluster tells no UID"),
        pytest.param(
            {"status": {"conditions": AWAY, "managedCluster": "eu"}}, lead("shop/eu"), id="nor did it before a restart"
        ),
        pytest.param({"spec": {"self": True}}, lead("shop/eu", OWN, is_self=True), id="it is this cluster"),
    ],
)
def test_where_a_target_leads(manifest: dict[str, object], want: Lead | None) -> None:
    metadata = {"namespace": "shop", "name": "eu", "resourceVersion": "1"}
    assert lead_of(Object(TARGETS, msgspec.json.encode({"metadata": metadata, **manifest})), OWN) == want


def told(found: dict[Key, Found]) -> dict[str, str]:
    """Return by Target the name, with a star if we create it, or the reason for its absence."""
    return {
        "/".join(key).lstrip("/"): (each.name + "*" * each.ours) or f"({each.reason})" for key, each in found.items()
    }


@pytest.mark.parametrize(
    ("leads", "known", "want"),
    [
        pytest.param([lead("shop/eu", "1")], [Known("eu")], {"shop/eu": "eu"}, id="the same name"),
        pytest.param([lead("eu", "1")], [Known("eu", "1")], {"eu": "eu"}, id="a ClusterTarget"),
        pytest.param(
            [lead("shop/eu", "1")], [Known("eu"), Known("x", "1")], {"shop/eu": "x"}, id="the claim before the name"
        ),
        pytest.param(
            [lead("shop/eu", "1", asked="y")],
            [Known("eu"), Known("x", "1"), Known("y")],
            {"shop/eu": "y"},
            id="the annotation before the claim",
        ),
        pytest.param(
            [lead("shop/eu", "1", asked="y")],
            [Known("eu", "1")],
            {"shop/eu": "(NotFound)"},
            id="an annotation that names none",
        ),
        pytest.param([lead("shop/eu", "1")], [], {"shop/eu": "(NotFound)"}, id="there is none"),
        pytest.param(
            [lead("shop/eu", "1")], [Known("eu", "2")], {"shop/eu": "(NotFound)"}, id="the name is another cluster's"
        ),
        pytest.param([lead("shop/eu")], [Known("eu", "2")], {"shop/eu": "(NotFound)"}, id="a cluster without UID"),
        pytest.param(
            [lead("shop/eu", "1"), lead("team/eu", "2")],
            [Known("eu")],
            {"shop/eu": "(NotFound)", "team/eu": "(NotFound)"},
            id="two clusters have the name",
        ),
        pytest.param(
            [lead("shop/eu", "1"), lead("team/eu", "2")],
            [Known("eu", "2")],
            {"shop/eu": "(NotFound)", "team/eu": "eu"},
            id="two clusters have the name, and the claim tells which it is",
        ),
        pytest.param(
            [lead("shop/eu", "1"), lead("team/x", "1")],
            [Known("eu")],
            {"shop/eu": "eu", "team/x": "eu"},
            id="two Targets to one cluster",
        ),
        pytest.param([lead("here", "1", is_self=True)], [Known("local-cluster")], {"here": "local-cluster"}, id="self"),
        pytest.param(
            [lead("shop/eu", "1")], [Known("a", "1"), Known("b", "1")], {"shop/eu": "a"}, id="two have the claim"
        ),
    ],
)
def test_where_others_make_them(leads: Sequence[Lead], known: Sequence[Known], want: dict[str, str]) -> None:
    assert told(consume(leads, known)) == want


@pytest.mark.parametrize(
    ("leads", "known", "want"),
    [
        pytest.param([lead("shop/eu", "1")], [], {"shop/eu": "eu*"}, id="called as its Target"),
        pytest.param(
            [lead("shop/eu", "1"), lead("big", "1")], [], {"big": "big*", "shop/eu": "big*"}, id="as its ClusterTarget"
        ),
        pytest.param([lead("shop/eu", "1", asked="x")], [], {"shop/eu": "x*"}, id="as its annotation says"),
        pytest.param(
            [lead("/eu", "1"), lead("shop/eu", "1", asked="x")],
            [],
            {"eu": "eu*", "shop/eu": "eu*"},
            id="not as a Target says where a ClusterTarget leads there",
        ),
        pytest.param([lead("shop/me", "1", is_self=True)], [], {"shop/me": "local-cluster*"}, id="self"),
        pytest.param(
            [lead("shop/me", "1", is_self=True), lead("me", "1")],
            [],
            {"me": "local-cluster*", "shop/me": "local-cluster*"},
            id="self, and a kubeconfig that leads here",
        ),
        pytest.param(
            [lead("shop/eu", "1"), lead("team/eu", "2")],
            [],
            {"shop/eu": "shop-eu*", "team/eu": "team-eu*"},
            id="two clusters would share a name",
        ),
        pytest.param(
            [lead("shop/eu", "1"), lead("eu", "2")],
            [],
            {"eu": "eu*", "shop/eu": "shop-eu*"},
            id="and one is a ClusterTarget's",
        ),
        pytest.param(
            [lead("shop/eu", "1"), lead("team/eu", "2")],
            [Known("eu", "2", ours=True, uid="2")],
            {"shop/eu": "shop-eu*", "team/eu": "eu*"},
            id="who has a name keeps it",
        ),
        pytest.param(
            [lead("shop/eu", "1", asked="x")],
            [Known("eu", "1", ours=True, uid="1")],
            {"shop/eu": "x*"},
            id="unless an annotation asks for another",
        ),
        pytest.param(
            [lead("shop/eu", "2")],
            [Known("eu", "1", ours=True, uid="1")],
            {"shop/eu": "eu*"},
            id="the name of a cluster that no Target leads to any more",
        ),
        pytest.param(
            [lead("shop/eu", "1"), lead("team/x", "2", asked="eu")],
            [],
            {"shop/eu": "shop-eu*", "team/x": "eu*"},
            id="an annotation asks for the name of another Target",
        ),
        pytest.param(
            [lead("shop/eu", "1"), lead("team/x", "2", asked="eu")],
            [Known("eu", "1", ours=True, uid="1")],
            {"shop/eu": "eu*", "team/x": "(NameTaken)"},
            id="an annotation asks for the name that another cluster has",
        ),
        pytest.param(
            [lead("shop/eu", "1", asked="big"), lead("team/x", "2", asked="eu")],
            [Known("eu", "1", ours=True, uid="1")],
            {"shop/eu": "big*", "team/x": "eu*"},
            id="and that one asks for another",
        ),
        pytest.param(
            [lead("a/x", "1", asked="eu"), lead("b/y", "2", asked="eu")],
            [],
            {"a/x": "eu*", "b/y": "(NameTaken)"},
            id="two annotations ask for the same",
        ),
        pytest.param(
            [lead("a/x", "1", asked="Eu_1")], [], {"a/x": "(InvalidName)"}, id="an annotation that is no name"
        ),
        pytest.param([lead("shop/eu", "1")], [Known("eu")], {"shop/eu": "eu"}, id="somebody else has made it"),
        pytest.param([lead("shop/eu", "1")], [Known("x", "1")], {"shop/eu": "x"}, id="and called it otherwise"),
        pytest.param(
            [lead("shop/eu", "1")], [Known("eu", "2")], {"shop/eu": "shop-eu*"}, id="and it is another cluster"
        ),
        pytest.param([lead("eu", "1")], [Known("eu", "2")], {"eu": "(NameTaken)"}, id="and this is a ClusterTarget"),
        pytest.param(
            [lead("shop/eu"), lead("team/eu")], [], {"shop/eu": "shop-eu*", "team/eu": "team-eu*"}, id="without UIDs"
        ),
        pytest.param(
            [lead("a-b/c", "1"), lead("a/b-c", "2"), lead("x/c", "3"), lead("x/b-c", "4")],
            [],
            {"a-b/c": f"{shortened('a-b/c')}*", "a/b-c": "a-b-c*", "x/b-c": "x-b-c*", "x/c": "x-c*"},
            id="dashes make two names the same",
        ),
    ],
)
def test_where_we_make_them(leads: Sequence[Lead], known: Sequence[Known], want: dict[str, str]) -> None:
    assert told(serve(leads, known)) == want
    again = [
        Known(each.name, ours=True, uid=_uid(leads, key)) for key, each in serve(leads, known).items() if each.ours
    ]
    assert told(serve(leads, [*(each for each in known if not each.ours), *again])) == want, "it stays so"


def _uid(leads: Sequence[Lead], key: Key) -> str:
    return next(lead.uid for lead in leads if lead.key == key)


def test_what_is_wrong_is_told_with_its_remedy() -> None:
    asks = serve([lead("a/x", "1", asked="Eu_1")], [])["a", "x"]
    assert asks.message.startswith("annotation multicluster/managed-cluster: 'Eu_1' is no name of a ManagedCluster")
    taken = serve([lead("eu", "1")], [Known("eu", "2")])["", "eu"]
    assert taken.message == (
        "ManagedCluster eu stands for another cluster: annotate this one multicluster/managed-cluster with another name"
    )
    missing = consume([lead("shop/eu", "1")], [])[EU]
    assert "no ManagedCluster has the claim id.k8s.io 1 or is called eu" in missing.message
    named = consume([lead("shop/eu", "1", asked="y")], [])[EU]
    assert named.message == "annotation multicluster/managed-cluster names ManagedCluster y, which does not exist"


def test_names_can_be_those_of_namespaces() -> None:
    assert shortened("eu") == "eu"
    assert shortened("eu.example.com").startswith("eu-example-com-")
    assert shortened("eu.example.com") != shortened("eu.example-com")
    for name in ("a" * 100, "a." * 60 + "b", "a" * 51 + ".-x"):
        assert is_label(shortened(name))
    assert candidates(("shop", "eu"))[:2] == ("eu", "shop-eu")
    assert candidates(("", "eu")) == ("eu",)
