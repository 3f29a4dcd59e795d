from typing import Any

import pytest

from agent.clusters.copies.field_owners import given_back
from agent.model.diff import merge_patch
from agent.model.service import is_native, is_shared_by_namespace, selector_of_copy
from agent.model.servicemarks import is_switched, native, rerouted, shared
from agent.services.reroute.decide import ServiceAndPods, Wait, decide
from tests.model.pods import P

Raw = dict[str, Any]

PLAIN: Raw = {"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"app": "web"}}}
DONE = rerouted(PLAIN, switch=True)


def changed(service: Raw, **spec: Any) -> Raw:
    return {**service, "spec": {**service["spec"], **spec}}


def test_a_service_without_proxy_pods_is_left_as_it_is() -> None:
    assert merge_patch(PLAIN, decide(ServiceAndPods(PLAIN, proxies=False))) == {}


def test_a_service_with_proxy_pods_keeps_its_selector_and_is_shared() -> None:
    decided = decide(ServiceAndPods(PLAIN, proxies=True))
    assert decided == native(PLAIN)
    assert decided["spec"] == PLAIN["spec"]
    annotations = decided["metadata"]["annotations"]
    assert P + "original-selector" not in annotations
    assert is_native(annotations)
    assert not is_shared_by_namespace(annotations)
    assert selector_of_copy(decided) == {P + "app": "web"}
    assert decide(ServiceAndPods(decided, proxies=True)) == decided
    assert merge_patch(PLAIN, decide(ServiceAndPods(decided, proxies=False))) == {}


@pytest.mark.parametrize("selector", [{"app": "api"}, {"app": "web", "hash": "1"}, {"hash": "2"}])
def test_another_selector_of_the_user_costs_no_write(selector: dict[str, str]) -> None:
    service = changed(native(PLAIN), selector=selector)
    assert decide(ServiceAndPods(service, proxies=True)) == service
    assert selector_of_copy(service) == {P + key: value for key, value in selector.items()}


@pytest.mark.parametrize("switch", [True, False])
def test_a_service_that_was_rerouted_gets_its_selector_back(switch: bool) -> None:
    assert merge_patch(native(PLAIN), decide(ServiceAndPods(rerouted(PLAIN, switch=switch), proxies=True))) == {}


def test_a_service_that_is_to_be_rewritten_after_all_is_rerouted() -> None:
    assert decide(ServiceAndPods(native(PLAIN), proxies=True, rewrites=True)) == DONE


def test_a_service_with_proxy_pods_is_rerouted_if_that_is_asked_for() -> None:
    assert decide(ServiceAndPods(PLAIN, proxies=True, rewrites=True)) == DONE


@pytest.mark.parametrize("wait", [each for each in Wait if each])
def test_a_selector_is_not_switched_while_an_endpoint_would_be_lost(wait: Wait) -> None:
    decided = decide(ServiceAndPods(PLAIN, proxies=True, rewrites=True, wait=wait))
    assert decided["spec"]["selector"] == {"app": "web"}
    assert decided["metadata"]["annotations"][P + "original-selector"] == "app=web", "copies can be made already"


def test_a_selector_that_is_switched_stays_so() -> None:
    assert decide(ServiceAndPods(DONE, proxies=True, rewrites=True, wait=Wait.NOT_COVERED)) == DONE


def test_a_selector_goes_back_where_other_clusters_endpoints_have_another_name() -> None:
    assert decide(ServiceAndPods(DONE, proxies=True, rewrites=True, wait=Wait.OTHER_NAME)) == rerouted(
        PLAIN, switch=False
    )


def test_a_selector_goes_back_while_other_pods_are_selected_too() -> None:
    assert decide(ServiceAndPods(DONE, proxies=True, rewrites=True, others=True)) == rerouted(PLAIN, switch=False)


def test_what_is_applied_again_is_rewritten_at_once() -> None:
    merged = changed(DONE, selector={"app": "web", P + "app": "web"})
    assert not is_switched(merged)
    assert decide(ServiceAndPods(merged, proxies=True, rewrites=True)) == DONE


def test_everything_is_undone_when_the_last_proxy_pod_has_gone() -> None:
    assert merge_patch(PLAIN, decide(ServiceAndPods(DONE, proxies=False))) == {}


def test_a_copy_of_another_clusters_service_is_not_touched() -> None:
    annotations = {P + "is-delegate": "", P + "original-selector": "app=web", P + "global": "true"}
    copy = {"metadata": {"name": "web", "annotations": annotations}, "spec": {"selector": {P + "app": "web"}}}
    for proxies in (True, False):
        assert decide(ServiceAndPods(copy, proxies=proxies, rewrites=True)) == copy


def test_a_service_that_is_to_be_left_alone_is_restored() -> None:
    alone = {**DONE, "metadata": {**DONE["metadata"]}}
    alone["metadata"]["annotations"] = {
        **DONE["metadata"]["annotations"],
        "multicluster/global": "true",
        P + "global": "false",
    }
    decided = decide(ServiceAndPods(alone, proxies=True, rewrites=True))
    assert decided["spec"]["selector"] == {"app": "web"}
    assert decide(ServiceAndPods(decided, proxies=True, rewrites=True)) == decided, (
        "what its user says is not taken away"
    )


def entry(manager: str, operation: str, **spec: Any) -> Raw:
    return {"manager": manager, "operation": operation, "fieldsV1": {"f:spec": spec} if spec else {"f:metadata": {}}}


def test_the_selector_is_given_back_to_who_applies_the_service() -> None:
    fields = [entry("helm", "Apply", **{"f:ports": {}}), entry("flotilla", "Update", **{"f:selector": {}})]
    assert given_back(fields) == [
        entry("helm", "Apply", **{"f:ports": {}, "f:selector": {}}),
        {"manager": "flotilla", "operation": "Update", "fieldsV1": {}},
    ]


def test_nothing_is_given_back_where_nobody_applies_or_the_owner_is_right() -> None:
    ours = entry("flotilla", "Update", **{"f:selector": {}})
    assert given_back([ours]) is None
    assert given_back([ours, entry("labels-only", "Apply")]) is None
    assert given_back([entry("helm", "Apply", **{"f:selector": {}})]) is None


def test_a_service_of_a_namespace_that_shares_all_is_shared_before_and_after_it_has_proxy_pods() -> None:
    assert decide(ServiceAndPods(PLAIN, proxies=False, shared=True)) == shared(PLAIN)
    assert decide(ServiceAndPods(shared(PLAIN), proxies=True, rewrites=True)) == DONE
    assert decide(ServiceAndPods(DONE, proxies=False, shared=True)) == shared(PLAIN)
    assert merge_patch(PLAIN, decide(ServiceAndPods(shared(PLAIN), proxies=False))) == {}
