"""Combined requests of the links and annotations of a Service."""

from typing import Any

import pytest

from agent.model.servicerule import ANYTHING, Rule, Wish, firsts, overruled, rule, service_of, wish


def link(name: str = "web", **spec: Any) -> Any:
    return {"metadata": {"name": name, "namespace": "shop"}, "spec": spec}


def test_a_link_is_about_the_service_that_it_names_or_is_named_as() -> None:
    assert service_of(link()) == "web"
    assert service_of(link("web-1a2b3c4d", service="web")) == "web"
    assert service_of({"metadata": {"name": "web", "namespace": "shop"}}) == "web"


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({}, Wish()),
        ({"service": "web", "ports": [80, 443]}, Wish(ports=frozenset((80, 443)))),
        ({"from": ["us"]}, Wish(sources=frozenset(("us",)))),
        ({"to": [{"cluster": "eu"}]}, Wish(consumers=frozenset(("eu",)))),
        ({"to": [{"cluster": "eu", "namespace": "shop"}]}, Wish(consumers=frozenset(("eu",)))),
        # In other clusters, only these callers.
        (
            {"to": [{"cluster": "eu", "namespace": "web"}]},
            Wish(consumers=frozenset(), elsewhere=frozenset((("eu", "web"),))),
        ),
        ({"driver": "mcs", "affinity": "local"}, Wish(driver="mcs", affinity="local")),
        ({"driver": "wormhole"}, Wish()),
    ],
)
def test_what_is_not_understood_of_a_link_has_no_effect(spec: dict[str, Any], want: Wish) -> None:
    assert wish(link(**spec)) == want


@pytest.mark.parametrize(
    ("links", "source", "consumer", "allowed", "ports"),
    [
        ([], "us", "eu", True, None),
        ([link()], "us", "eu", True, None),
        ([link(**{"from": ["us"]})], "us", "eu", True, None),
        ([link(**{"from": ["us"]})], "eu", "us", False, frozenset()),
        ([link(to=[{"cluster": "us"}])], "eu", "us", True, None),
        ([link(to=[{"cluster": "us"}])], "us", "eu", False, frozenset()),
        ([link(ports=[80])], "us", "eu", True, {80}),
        # Requests of several links are united.
        ([link(ports=[80]), link("b", ports=[443])], "us", "eu", True, {80, 443}),
        ([link(ports=[80]), link("b", ports=[443], **{"from": ["de"]})], "us", "eu", True, {80}),
        ([link(**{"from": ["us"]}), link("b", **{"from": ["eu"]})], "eu", "us", True, None),
        ([link(ports=[80]), link("b")], "us", "eu", True, None),
    ],
)
def test_what_all_links_ask_for_is_done(
    links: list[Any], source: str, consumer: str, allowed: bool, ports: set[int] | None
) -> None:
    found = rule({}, links)
    assert found.allows((source,), (consumer,)) is allowed
    assert found.ports((source,), (consumer,)) == ports


@pytest.mark.parametrize(
    ("annotations", "links", "driver", "affinity"),
    [
        ({}, [], "", ""),
        ({"multicluster/network-driver": "none", "multicluster/affinity": "local"}, [], "none", "local"),
        ({"multicluster.admiralty.io/network-driver": "mcs"}, [link()], "mcs", ""),
        ({"multicluster/network-driver": "wormhole", "multicluster/affinity": "sideways"}, [], "", ""),
        ({"multicluster/network-driver": "none"}, [link("b", driver="mcs"), link("a", driver="cilium")], "cilium", ""),
        ({"multicluster/affinity": "none"}, [link(affinity="local")], "", "local"),
    ],
)
def test_a_link_counts_more_than_annotations_and_the_first_more_than_the_next(
    annotations: dict[str, str], links: list[Any], driver: str, affinity: str
) -> None:
    found = rule(annotations, links)
    assert (found.driver, found.affinity) == (driver, affinity)


@pytest.mark.parametrize(
    ("mine", "others", "field"),
    [
        (link("b", driver="mcs"), [], ""),
        (link("b", driver="mcs"), [link("a")], ""),
        (link("b", driver="mcs"), [link("a", driver="mcs", affinity="local")], ""),
        # An invalid value of another link is ignored in the comparison, too.
        (link("b", driver="mcs"), [link("a", driver="wormhole")], ""),
        (link("b", driver="mcs"), [link("c", driver="gateway")], ""),
        (link("b", driver="mcs"), [link("a", driver="gateway")], "driver"),
        (link("b", affinity="none"), [link("a", affinity="local")], "affinity"),
        (link("b", driver="mcs", affinity="none"), [link("a", affinity="local", driver="mcs")], "affinity"),
    ],
)
def test_what_another_link_overrules_is_known(mine: Any, others: list[Any], field: str) -> None:
    found = overruled(mine, firsts([mine, *others]))
    assert (found is not None) == bool(field)
    if found is not None:
        assert found[0] == "Conflict"
        assert f"spec.{field}: {mine['spec'][field]} has no effect, for ServiceLink a, the first" in found[1]
        assert f"says {others[0]['spec'][field]}: say the same, or remove it" in found[1]
    assert overruled(mine, firsts(())) is None


def test_a_cluster_may_be_meant_by_any_of_its_names() -> None:
    asked = Rule((Wish(sources=frozenset(("admiralty-shop-us-0123",))),))
    assert asked.allows(("us", "admiralty-shop-us-0123"), ("local-cluster", "hub"))
    assert not asked.allows(("local-cluster", "hub"), ("us", "admiralty-shop-us-0123"))
    assert ANYTHING.allows((), ())


def test_callers_elsewhere_reach_what_a_link_says_and_nothing_by_default() -> None:
    to_web = link(ports=[80], to=[{"cluster": "eu", "namespace": "web"}], **{"from": ["us"]})
    found = rule({}, [link("all"), to_web])
    assert found.elsewhere == {("eu", "web")}
    assert found.allows(["us"], ["eu"], "web")
    assert found.allows(["de"], ["eu"])
    for source, consumer, namespace in (("de", "eu", "web"), ("us", "de", "web"), ("us", "eu", "db")):
        assert not found.allows([source], [consumer], namespace)
        assert found.ports([source], [consumer], namespace) == frozenset()
    assert found.ports(["us"], ["eu"], "web") == {80}
    assert found.ports(["us"], ["eu"]) is None
    assert not rule({}, []).allows(["us"], ["eu"], "web")
