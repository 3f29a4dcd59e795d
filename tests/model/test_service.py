from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.api import names
from agent.model.diff import merge_patch
from agent.model.pattern import InvalidPattern
from agent.model.service import (
    InvalidService,
    can_be_rerouted,
    can_be_shared,
    format_selector,
    is_left_alone,
    is_shared,
    is_shared_by_namespace,
    parse_selector,
    selector_of_copy,
    selects,
    users_selector,
)
from agent.model.servicemarks import is_switched, rerouted, restored, shared, with_cilium_affinity
from tests.model.pods import P

Raw = dict[str, Any]


def service(selector: dict[str, str] | None, annotations: dict[str, str] | None = None, **spec: Any) -> Raw:
    metadata: Raw = {"name": "web", "namespace": "default", "uid": "u1"}
    if annotations is not None:
        metadata["annotations"] = annotations
    return {"metadata": metadata, "spec": {**({"selector": selector} if selector else {}), **spec}}


WEB = service({"app": "web"})


def applied_again(live: Raw, selector: dict[str, str]) -> Raw:
    """Return the Service after `kubectl apply` or Helm merged a selector into the live object."""
    return {**live, "spec": {**live["spec"], "selector": {**live["spec"]["selector"], **selector}}}


def test_a_rerouted_service_selects_delegates_and_says_what_it_was() -> None:
    done = rerouted(WEB, switch=True)
    assert done["spec"]["selector"] == {P + "app": "web"}
    assert done["metadata"]["annotations"] == {
        P + "original-selector": "app=web",
        P + "global": "true",
        "io.cilium/global-service": "true",
        "service.cilium.io/global": "true",
        "multicluster/marks": f'["io.cilium/global-service","{P}global","service.cilium.io/global"]',
    }
    assert done["metadata"]["labels"] == {"multicluster/global": "true"}


def test_before_the_selector_is_switched_only_the_marks_are_there() -> None:
    marked = rerouted(WEB, switch=False)
    assert marked["spec"] == WEB["spec"]
    assert marked["metadata"] == rerouted(WEB, switch=True)["metadata"]
    assert selector_of_copy(marked) == {P + "app": "web"}, "copies are to be ready before the selector is switched"


labels = st.dictionaries(
    st.sampled_from(["app", "tier", "foo.com/app", "example.com/part", "keep", P + "own"]),
    st.sampled_from(["", "web", "x.y", "a_b"]),
    min_size=1,
)
regexps = st.sampled_from([None, "^keep=", "^foo.com/", "=web$"])


@given(labels, regexps, st.booleans())
def test_rerouting_twice_is_rerouting_once_and_undoing_it_leaves_nothing(
    selector: dict[str, str], regexp: str | None, switch: bool
) -> None:
    own = {"note": "mine", **({P + "no-prefix-label-regexp": regexp} if regexp else {})}
    original = service(selector, own)
    if not users_selector(original):
        return
    once = rerouted(original, switch=switch)
    assert users_selector(once) == selector
    assert rerouted(once, switch=switch) == once
    assert is_switched(rerouted(once, switch=True))
    assert merge_patch(original, restored(once)) == {}


@given(labels, regexps)
def test_what_is_applied_again_is_rewritten_to_the_same(selector: dict[str, str], regexp: str | None) -> None:
    own = {P + "no-prefix-label-regexp": regexp} if regexp else {}
    original = service(selector, own)
    plain = {key: value for key, value in selector.items() if not key.startswith(P)}
    if plain != selector:
        return
    done = rerouted(original, switch=True)
    again = applied_again(done, selector)
    assert users_selector(again) == selector
    assert rerouted(again, switch=True) == done


def test_what_is_applied_with_other_keys_counts_and_nothing_else() -> None:
    done = rerouted(service({"app": "web", "tier": "front"}), switch=True)
    fewer = applied_again(done, {"app": "web"})
    assert users_selector(fewer) == {"app": "web"}
    other = rerouted(applied_again(done, {"app": "api"}), switch=True)
    assert other["spec"]["selector"] == {P + "app": "api"}
    assert other["metadata"]["annotations"][P + "original-selector"] == "app=api"


def test_a_change_of_the_rewritten_keys_is_reverted() -> None:
    done = rerouted(WEB, switch=True)
    assert users_selector({**done, "spec": {"selector": {P + "app": "other"}}}) == {"app": "web"}


def test_annotations_that_a_user_has_set_stay_when_it_is_undone() -> None:
    own = {"io.cilium/global-service": "true", "service.cilium.io/global": "false"}
    done = rerouted(service({"app": "web"}, own), switch=True)
    assert done["metadata"]["annotations"]["service.cilium.io/global"] == "false"
    back = restored(done)
    assert back["metadata"]["annotations"] == own
    assert back["spec"]["selector"] == {"app": "web"}
    assert back["metadata"]["labels"] == {"multicluster/global": "true"}, "its user shares it"


def test_what_admiralty_has_rerouted_is_undone_too() -> None:
    theirs = {P + "original-selector": "app=web", P + "global": "true", "io.cilium/global-service": "true"}
    back = restored(service({P + "app": "web"}, theirs))
    assert merge_patch(WEB, back) == {}


def test_nothing_is_changed_that_nobody_shares() -> None:
    assert merge_patch(WEB, restored(WEB)) == {}
    assert not is_shared({})
    assert not is_shared(None)


@pytest.mark.parametrize(
    "key", [P + "global", "multicluster/global", "io.cilium/global-service", "service.cilium.io/global"]
)
def test_every_global_annotation_shares_a_service(key: str) -> None:
    assert is_shared({key: "true"})
    assert is_shared({key: "True"})
    assert not is_shared({key: "false"})
    assert not is_shared({key: ""})
    assert not is_shared({key: "true", names.ANNOTATION_IS_DELEGATE: ""}), "a copy is not shared any further"


@pytest.mark.parametrize(
    "alone",
    [
        {"multicluster/global": "false", "io.cilium/global-service": "true"},
        {"io.cilium/global-service": "false"},
        {"io.cilium/global-service": "false", "service.cilium.io/global": "False"},
        {"multicluster/global": "false"},
        {P + "global": "false", "multicluster/global": "true"},
    ],
)
def test_a_user_can_have_a_service_left_alone(alone: dict[str, str]) -> None:
    assert not is_shared(alone)
    assert not can_be_rerouted(service({"app": "web"}, alone))
    marks = rerouted(WEB, switch=True)["metadata"]["annotations"]
    assert not is_shared(marks | alone), "also where our own marks stand beside it"


def test_an_ingress_that_we_have_marked_can_be_left_alone_too() -> None:
    marked = {P + "global": "true", "multicluster/marks": f'["{P}global"]'}
    assert not is_left_alone(marked)
    assert is_left_alone(marked | {"multicluster/global": "false"})


def test_a_service_that_its_user_shares_is_shared_whatever_another_key_says() -> None:
    assert is_shared({"multicluster/global": "true", "service.cilium.io/global": "false"})
    assert is_shared({"io.cilium/global-service": "true", "service.cilium.io/global": "false"})


def test_services_without_pods_are_not_rerouted() -> None:
    assert not can_be_rerouted(service({"app": "web"}, type="ExternalName", externalName="example.com"))
    assert users_selector(service(None)) == {}
    assert users_selector(service({P + "app": "web"})) == {}, "its user selects delegates already"


@given(labels)
def test_a_selector_is_read_as_it_was_written(selector: dict[str, str]) -> None:
    assert parse_selector(format_selector(selector)) == selector


@pytest.mark.parametrize("text", ["", " , ", "app", "=web", "app in (a,b)"])
def test_what_is_no_selector_is_an_error_with_a_remedy(text: str) -> None:
    with pytest.raises(InvalidService, match="apply the Service as it was at first"):
        users_selector(service({P + "app": "web"}, {P + "original-selector": text}))


def test_an_expression_that_is_none_is_an_error() -> None:
    with pytest.raises(InvalidPattern):
        rerouted(service({"app": "web"}, {P + "no-prefix-label-regexp": "?!"}), switch=True)


def test_what_its_namespace_shares_keeps_its_selector_and_is_as_it_was_when_that_ends() -> None:
    plain = service({"app": "db"}, {"note": "mine"})
    made = shared(plain)
    assert is_shared(made["metadata"]["annotations"])
    assert made["spec"] == plain["spec"]
    assert made["metadata"]["labels"] == {names.LABEL_GLOBAL: "true"}
    assert shared(made) == made
    assert merge_patch(plain, restored(made)) == {}


def test_a_rerouted_service_of_such_a_namespace_is_shared_on_and_can_be_undone() -> None:
    plain = service({"app": "db"})
    made = rerouted(shared(plain), switch=True)
    assert made == rerouted(plain, switch=True)
    assert shared(made) == shared(plain)
    assert merge_patch(plain, restored(made)) == {}


def test_what_its_user_says_of_a_service_counts_more_than_its_namespace() -> None:
    own = service({"app": "db"}, {"service.cilium.io/global": "true"})
    assert shared(own)["metadata"]["annotations"] == own["metadata"]["annotations"]
    alone = service({"app": "db"}, {"multicluster/global": "false"})
    assert merge_patch(alone, shared(alone)) == {}
    taken_back = {**shared(service({"app": "db"}))["metadata"]["annotations"], P + "global": "false"}
    assert shared(service({"app": "db"}, taken_back))["metadata"]["annotations"] == {P + "global": "false"}


def test_what_every_cluster_has_and_what_others_have_copied_is_not_shared() -> None:
    api_server = service(None)
    api_server["metadata"] |= {"name": "kubernetes", "namespace": "default"}
    derived = service(None)
    derived["metadata"]["ownerReferences"] = [{"kind": "ServiceImport", "name": "db", "uid": "U"}]
    copy = service({"app": "db"}, {names.ANNOTATION_IS_DELEGATE: ""})
    for each in (api_server, derived, copy):
        assert not can_be_shared(each)
        assert merge_patch(each, shared(each)) == {}


def test_what_is_shared_by_its_namespace_is_told_from_what_is_for_itself() -> None:
    marked = shared(service({"app": "db"}))
    assert is_shared_by_namespace(marked["metadata"]["annotations"])
    assert not is_shared_by_namespace(rerouted(marked, switch=True)["metadata"]["annotations"])
    assert not is_shared_by_namespace({**marked["metadata"]["annotations"], "multicluster/global": "true"})
    assert not is_shared_by_namespace({"multicluster/global": "true"})
    assert not is_shared_by_namespace({})


@pytest.mark.parametrize(
    ("found", "labels", "expected"),
    [
        (WEB, {"app": "web", "x": "y"}, True),
        (rerouted(WEB, switch=True), {"app": "web"}, True),
        (WEB, {"app": "db"}, False),
        (WEB, {}, False),
        (service(None), {"app": "web"}, False),
        (service({"app": "web"}, type="ExternalName"), {"app": "web"}, False),
    ],
)
def test_a_service_selects_by_what_its_user_wrote(found: Raw, labels: dict[str, str], expected: bool) -> None:
    assert selects(found, labels) is expected


@pytest.mark.parametrize(
    "make",
    [
        lambda service: rerouted(service, switch=True),
        lambda service: shared(service),
        lambda service: restored(_annotated(service, **{"multicluster/global": "true"})),
    ],
    ids=["rerouted", "of its namespace", "by its user"],
)
def test_affinity_is_handed_on_to_cilium_and_taken_back(make: Callable[[Raw], Raw]) -> None:
    key = "service.cilium.io/affinity"
    plain: Raw = {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"selector": {"app": "web"}}}
    asked = _annotated(plain, **{"multicluster/affinity": "local"})
    first = with_cilium_affinity(make(asked))
    assert first["metadata"]["annotations"][key] == "local"
    assert with_cilium_affinity(make(first)) == first
    other = _annotated(first, **{"multicluster/affinity": "remote"})
    assert with_cilium_affinity(make(other))["metadata"]["annotations"][key] == "remote"
    kept = {name: value for name, value in first["metadata"]["annotations"].items() if name != "multicluster/affinity"}
    without = {**first, "metadata": {**first["metadata"], "annotations": kept}}
    assert key not in with_cilium_affinity(make(without))["metadata"]["annotations"]
    assert key not in (restored(first)["metadata"]["annotations"] or {})
    # Fields written by a user stay.
    theirs = with_cilium_affinity(make(_annotated(asked, **{key: "none"})))
    assert theirs["metadata"]["annotations"][key] == "none"


def test_affinity_that_means_nothing_and_of_what_is_not_shared_is_not_handed_on() -> None:
    plain: Raw = {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"selector": {"app": "web"}}}
    assert with_cilium_affinity(asked := _annotated(plain, **{"multicluster/affinity": "local"})) == asked
    bad = rerouted(_annotated(plain, **{"multicluster/affinity": "sideways"}), switch=True)
    assert with_cilium_affinity(bad) == bad


def _annotated(service: Raw, **annotations: str) -> Raw:
    metadata = service["metadata"]
    return {**service, "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), **annotations}}}


def test_a_selector_with_thousands_of_keys_is_refused_with_the_limit() -> None:
    keys = {f"label-{index}": "x" for index in range(1001)}
    with pytest.raises(InvalidService, match=r"spec\.selector: it has 1001 keys, and 1000 are allowed"):
        users_selector(service(keys))
    kept = service({"app": "web"})
    kept["metadata"]["annotations"] = {P + "original-selector": ",".join(f"{key}=x" for key in keys)}
    with pytest.raises(InvalidService, match="original-selector: it has 1001 keys"):
        users_selector(kept)
