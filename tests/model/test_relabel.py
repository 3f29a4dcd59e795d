import re
from collections.abc import Mapping
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.api import names
from agent.api.names import SHORT_LIMIT
from agent.model.pattern import InvalidPattern
from agent.model.relabel import (
    EXACT_LIMIT,
    collisions,
    constraints,
    exact_key,
    exact_selector,
    labels_there,
    relabel,
    selector,
)
from tests.examples import examples
from tests.model.pods import P

MIXED = {"foo.com/bar": "a", "baz.com/foo": "b", P + "baz": "c", "a": "d"}


@pytest.mark.parametrize(
    ("regexp", "want"),
    [
        (None, {P + "bar": "a", P + "foo": "b", P + "baz": "c", P + "a": "d"}),
        ("", {P + "bar": "a", P + "foo": "b", P + "baz": "c", P + "a": "d"}),
        ("foo.com/bar|baz.com/foo", {"foo.com/bar": "a", "baz.com/foo": "b", P + "baz": "c", P + "a": "d"}),
        ("^a=d$", {P + "bar": "a", P + "foo": "b", P + "baz": "c", "a": "d"}),
        ("=[ab]$", {"foo.com/bar": "a", "baz.com/foo": "b", P + "baz": "c", P + "a": "d"}),
        (r"^kueue\.x-k8s\.io\/queue-name", {P + "bar": "a", P + "foo": "b", P + "baz": "c", P + "a": "d"}),
    ],
)
def test_vectors_of_4_1_labels_are_rewritten_as_admiralty_rewrites_them(
    regexp: str | None, want: dict[str, str]
) -> None:
    assert relabel(MIXED, regexp) == want


def test_a_label_can_be_kept_by_its_value() -> None:
    assert relabel({"a": "skip", "b": "no"}, "^.*=skip$") == {"a": "skip", P + "b": "no"}


def test_no_labels_stay_none() -> None:
    assert relabel(None) == relabel({}) == {}


def test_an_invalid_regexp_is_an_error() -> None:
    with pytest.raises(InvalidPattern, match="regular expression"):
        relabel(MIXED, "?!foo")


@pytest.mark.parametrize(
    ("labels", "regexp", "want"),
    [
        ({"app": "1", "a.io/app": "2"}, None, {P + "app": "1"}),
        ({"b.io/app": "1", "a.io/app": "2"}, None, {P + "app": "2"}),
        ({P + "app": "1", "app": "2"}, None, {P + "app": "2"}),
        ({P + "app": "1", "app": "2"}, "admiralty", {P + "app": "1"}),
    ],
    ids=[
        "a key without a slash wins",
        "the first in alphabetical order wins",
        "also over our own prefix",
        "a kept key wins over all",
    ],
)
def test_of_two_labels_with_one_key_the_same_wins_every_time(
    labels: dict[str, str], regexp: str | None, want: dict[str, str]
) -> None:
    for order in permutations(labels.items()):
        assert relabel(dict(order), regexp) == want


@pytest.mark.parametrize(
    ("requirement", "regexp", "want_key"),
    [
        ({"key": "x.io/app", "operator": "In", "values": ["a", "b"]}, None, P + "app"),
        ({"key": "x.io/app", "operator": "In", "values": ["a", "b"]}, "^x.io/app=b$", "x.io/app"),
        ({"key": "x.io/app", "operator": "Exists"}, "^x.io/", "x.io/app"),
        ({"key": "x.io/app", "operator": "Exists"}, "=b$", P + "app"),
        ({"key": "app", "operator": "DoesNotExist"}, None, P + "app"),
    ],
)
def test_requirements_follow_the_labels_they_select(
    requirement: dict[str, Any], regexp: str | None, want_key: str
) -> None:
    assert selector({"matchExpressions": [requirement]}, regexp) == {
        "matchExpressions": [{**requirement, "key": want_key}]
    }


def test_affinity_and_spread_select_rewritten_labels_and_nothing_else_changes() -> None:
    def term(key: str) -> dict[str, Any]:
        return {
            "labelSelector": {"matchLabels": {key: "web"}},
            "namespaceSelector": {"matchLabels": {"team": "a"}},
            "topologyKey": "kubernetes.io/hostname",
        }

    def spec(key: str, hash: str) -> dict[str, Any]:
        weighted = {"weight": 5, "podAffinityTerm": {**term(key), "mismatchLabelKeys": [hash, "kept"]}}
        return {
            "affinity": {
                "nodeAffinity": {"x": [{"key": "app"}]},
                "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]},
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term(key)]},
            },
            "topologySpreadConstraints": [{**term(key), "maxSkew": 1, "matchLabelKeys": [hash]}, {"maxSkew": 2}],
        }

    labels = {"app": "web", "hash": "1", "kept": "2"}
    assert constraints(spec("app", "hash"), labels, "^kept=2$") == spec(P + "app", P + "hash")


def test_a_spec_without_constraints_has_nothing_to_change() -> None:
    assert constraints({"containers": []}, {}, None) == {}
    assert constraints({"affinity": {"nodeAffinity": {"x": 1}}}, {}, None) == {}


PREFIXES = ["app.kubernetes.io", "strimzi.io", "a.b", "u", "h", "multicluster.io", "x" * 60 + "." + "y" * 60]
NAMES = ["name", "app", "Name", "na.me", "a.b_name", "U_name", "h" * 63, "name_" + "x" * 58]
keys = st.one_of(st.sampled_from(NAMES), st.builds("{}/{}".format, st.sampled_from(PREFIXES), st.sampled_from(NAMES)))
values = st.sampled_from(["", "web", "db", "keep"])
label_sets = st.dictionaries(keys, values, max_size=6)
requirements = st.one_of(
    st.fixed_dictionaries(
        {
            "key": keys,
            "operator": st.sampled_from(["In", "NotIn"]),
            "values": st.lists(values, min_size=1, max_size=3, unique=True),
        }
    ),
    st.fixed_dictionaries({"key": keys, "operator": st.sampled_from(["Exists", "DoesNotExist"])}),
)
selectors = st.fixed_dictionaries(
    {"matchLabels": st.dictionaries(keys, values, max_size=3), "matchExpressions": st.lists(requirements, max_size=3)}
)
regexps = st.sampled_from([None, "", "^app.kubernetes.io/name=", "=(web|keep)$", "/name=", "^name="])


def selects(found: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Evaluate a selector as Kubernetes does (apimachinery, labels.Requirement)."""
    if not found.get("matchLabels", {}).items() <= labels.items():
        return False
    for each in found.get("matchExpressions", ()):
        key, among = each["key"], labels.get(each["key"]) in each.get("values", ())
        if not {
            "In": key in labels and among,
            "NotIn": key not in labels or not among,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
        }[each["operator"]]:
            return False
    return True


@settings(max_examples=examples(300), deadline=None)
@given(selectors, label_sets, regexps)
def test_a_selector_selects_a_delegate_exactly_if_it_selected_its_pod(
    found: dict[str, Any], labels: dict[str, str], regexp: str | None
) -> None:
    there = labels_there(labels, regexp)
    assert selects(selector(found, regexp, exact=True), there) == selects(found, labels)
    service = found["matchLabels"]
    chosen = {**service, **{key: labels[key] for key in labels.keys() & service.keys()}}
    for wanted in (service, chosen):
        rewritten = {"matchLabels": exact_selector(wanted, regexp)}
        assert selects(rewritten, there) == selects({"matchLabels": wanted}, labels)


@settings(max_examples=examples(300), deadline=None)
@given(label_sets, regexps)
def test_delegates_have_the_contracts_labels_and_valid_keys(labels: dict[str, str], regexp: str | None) -> None:
    there = labels_there(labels, regexp)
    assert relabel(labels, regexp).items() <= there.items()
    ours = {key for key in there if key.startswith("multicluster/")}
    assert len(ours) == len(labels), "no two keys have the same exact key"
    assert all(re.fullmatch(r"multicluster/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", key) for key in ours)


def test_exact_keys_can_be_read() -> None:
    assert exact_key("app.kubernetes.io/name") == "multicluster/app.kubernetes.io_name"
    assert exact_key("app") == "multicluster/U_app"
    assert exact_key(P + "app") == P + "app", "a user who selects by the contract's key means it"
    long = exact_key("x" * 60 + ".io/name")
    assert re.fullmatch("multicluster/H[0-9a-f]{20}_name", long)
    assert len(exact_key("x" * 253 + "/" + "y" * 63)) <= len("multicluster/") + SHORT_LIMIT


def test_no_label_of_ours_looks_like_an_exact_one() -> None:
    own = [value for name, value in vars(names).items() if name.startswith("LABEL_") and isinstance(value, str)]
    assert names.LABEL_SERVING in own
    assert not [key for key in own if key.startswith(names.SHORT_PREFIX) and re.search("[A-Z_]", key)]


def test_two_pods_whose_labels_end_alike_are_told_apart_although_one_has_no_such_key() -> None:
    alone = labels_there({"strimzi.io/name": "shop"})
    assert not selects({"matchLabels": exact_selector({"app.kubernetes.io/name": "shop"})}, alone)
    assert not selects({"matchLabels": exact_selector({"name": "shop"})}, alone)
    assert selects({"matchLabels": relabel({"name": "shop"})}, alone), "which is what the contract's labels do"


def test_a_pod_of_very_many_labels_has_a_bounded_number_of_exact_ones() -> None:
    there = labels_there({f"a.io/{number:04}": "x" for number in range(EXACT_LIMIT + 5)})
    assert sum(key.startswith("multicluster/") for key in there) == EXACT_LIMIT


def test_keys_that_terms_take_from_the_pod_itself_are_exact_keys() -> None:
    spread = [{"maxSkew": 1, "matchLabelKeys": ["pod-template-hash", "a.io/rev", "b.io/rev", "kept"]}]
    labels = {"pod-template-hash": "1", "a.io/rev": "1", "b.io/rev": "2", "kept": "2"}
    (found,) = constraints({"topologySpreadConstraints": spread}, labels, "^kept=", exact=True)[
        "topologySpreadConstraints"
    ]
    want = ["multicluster/U_pod-template-hash", "multicluster/a.io_rev", "multicluster/b.io_rev", "kept"]
    assert found["matchLabelKeys"] == want


def test_labels_that_collide_by_the_contract_are_named_the_winner_first() -> None:
    labels = {"strimzi.io/name": "a", "app.kubernetes.io/name": "b", "x.io/tier": "c", "y.io/tier": "c", "app": "d"}
    assert collisions(labels) == {P + "name": ["app.kubernetes.io/name", "strimzi.io/name"]}
    assert collisions(labels, "^strimzi.io/name=") == {}
    assert collisions(labels, "(") == {}
