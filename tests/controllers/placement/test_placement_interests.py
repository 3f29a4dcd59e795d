from collections.abc import Collection, Mapping
from typing import Any

import pytest

from agent.placement.placements.decisions import Ledger
from agent.placement.placements.interests import Interest, Interests, interest

CPU = {"scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": "usage", "scoreName": "cpu"}}, "weight": 1}
BALANCE = {"scoreCoordinate": {"type": "BuiltIn", "builtIn": "Balance"}}
BINDINGS = {"shop": frozenset({"prod", "dev"}), "lab": frozenset({"dev"})}


def placement(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "shop", "name": "web"}, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({}, Interest(frozenset(), frozenset(), True, ())),
        ({"clusterSets": ["prod"]}, Interest(frozenset({"prod"}), frozenset(), True, ())),
        (
            {"prioritizerPolicy": {"mode": "Exact", "configurations": [CPU]}},
            Interest(frozenset(), frozenset({"usage"}), False, ()),
        ),
        (
            {"prioritizerPolicy": {"configurations": [{**BALANCE, "weight": 0}]}},
            Interest(frozenset(), frozenset(), False, ()),
        ),
        (
            {
                "predicates": [
                    {"requiredClusterSelector": {"celSelector": {"celExpressions": ['x.scores("mem").size() > 0']}}}
                ]
            },
            Interest(frozenset(), frozenset({"mem"}), True, ('x.scores("mem").size() > 0',)),
        ),
    ],
    ids=["by default it balances", "sets", "a score of a prioritizer", "weight 0 is not looked at", "a score of CEL"],
)
def test_what_a_placement_looks_at(spec: dict[str, Any], want: Interest) -> None:
    assert interest(placement(**spec)) == want


def interests(**found: Interest) -> Interests:
    """Build interests from keywords of the form `NAMESPACE_NAME`."""
    made = Interests()
    for name, each in found.items():
        namespace, _, rest = name.partition("_")
        made.put((namespace, rest), each)
    return made


ALL = Interest(frozenset(), frozenset({"usage"}), True, ())
PROD = Interest(frozenset({"prod"}), frozenset(), False, ("true",))


@pytest.mark.parametrize(
    ("sets", "want"),
    [
        ({"prod"}, {("shop", "all"), ("shop", "prod")}),
        ({"dev"}, {("shop", "all"), ("lab", "all")}),
        ({"other"}, set()),
        (set(), set()),
    ],
)
def test_a_change_in_a_set_concerns_those_that_look_at_it(sets: set[str], want: set[tuple[str, str]]) -> None:
    found = interests(shop_all=ALL, shop_prod=PROD, lab_all=ALL, far_all=ALL)
    assert set(found.of_sets(sets, BINDINGS)) == want


def test_a_change_of_a_score_concerns_those_that_name_it_and_may_choose_the_cluster() -> None:
    found = interests(shop_all=ALL, shop_prod=PROD, lab_all=ALL, far_all=ALL)
    assert set(found.of_score("usage", {"dev"}, BINDINGS)) == {("shop", "all"), ("lab", "all")}
    assert set(found.of_score("usage", {"prod"}, BINDINGS)) == {("shop", "all")}
    assert set(found.of_score("other", {"prod"}, BINDINGS)) == set()


def test_a_score_whose_name_cel_makes_up_may_be_any() -> None:
    expression = "managedCluster.scores(managedCluster.metadata.name).size() > 0"
    predicate = {"requiredClusterSelector": {"celSelector": {"celExpressions": [expression]}}}
    found = interests(shop_all=ALL, shop_cel=interest(placement(predicates=[predicate])))
    assert set(found.of_score("usage", {"dev"}, BINDINGS)) == {("shop", "all"), ("shop", "cel")}
    assert set(found.of_score("other", {"dev"}, BINDINGS)) == {("shop", "cel")}
    assert set(found.of_score("other", {"far"}, BINDINGS)) == set()


def test_what_is_gone_or_has_changed_is_concerned_no_more() -> None:
    found = interests(shop_all=ALL, shop_prod=PROD)
    found.put(("shop", "all"), PROD)
    found.drop(("shop", "prod"))
    found.drop(("shop", "never"))
    assert set(found) == {("shop", "all")}
    assert set(found.of_score("usage", {"prod"}, BINDINGS)) == set()
    assert set(found.of_namespace("shop")) == {("shop", "all")}
    found.drop(("shop", "all"))
    assert set(found) == set()


def test_a_ledger_counts_decisions_and_tells_whose_counts_change() -> None:
    told: list[tuple[tuple[str, str], set[str]]] = []

    def changed(owner: tuple[str, str], clusters: Collection[str]) -> None:
        told.append((owner, set(clusters)))

    def elsewhere(name: str) -> Mapping[str, int]:
        return ledger.elsewhere(("shop", name))

    ledger = Ledger(changed)
    ledger.put(("shop", "web"), ["eu", "us"])
    ledger.put(("shop", "db"), ["eu"])
    assert elsewhere("web") == {"eu": 1}
    assert elsewhere("db") == {"eu": 1, "us": 1}
    assert elsewhere("new") == {"eu": 2, "us": 1}
    ledger.put(("shop", "web"), ["us", "ap"])
    ledger.put(("shop", "web"), ["us", "ap"])
    ledger.put(("shop", "db"), [])
    assert elsewhere("db") == {"us": 1, "ap": 1}
    assert told == [
        (("shop", "web"), {"eu", "us"}),
        (("shop", "db"), {"eu"}),
        (("shop", "web"), {"eu", "ap"}),
        (("shop", "db"), {"eu"}),
    ]
