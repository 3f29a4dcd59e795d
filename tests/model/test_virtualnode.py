from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agent.api.conditions import find_condition
from agent.model.pattern import InvalidPattern
from agent.model.virtualnode import (
    TARGET_REACHABLE,
    Labels,
    amounts,
    desired_labels,
    free,
    has_several_huge_pages,
    is_closed,
    node_status,
    virtual_node,
)
from tests.model.pods import P

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
BASE: dict[str, str] = virtual_node("default", "c2")["metadata"]["labels"]


def test_the_node_of_a_target_is_the_one_of_the_contract() -> None:
    assert virtual_node("default", "c2") == {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "admiralty-default-c2",
            "labels": {
                "type": "virtual-kubelet",
                "virtual-kubelet.io/provider": "admiralty",
                "kubernetes.io/role": "cluster",
                "alpha.service-controller.kubernetes.io/exclude-balancer": "true",
                "node.kubernetes.io/exclude-from-external-load-balancers": "true",
                P + "target-namespace": "default",
                P + "target-name": "c2",
            },
        },
        "spec": {
            "taints": [{"key": "virtual-kubelet.io/provider", "value": "admiralty", "effect": "NoSchedule"}],
        },
    }


def test_the_node_of_a_cluster_target_names_it_by_one_label() -> None:
    node = virtual_node("", "c2")
    assert node["metadata"]["name"] == "admiralty-c2"
    assert node["metadata"]["labels"][P + "cluster-target-name"] == "c2"
    assert P + "target-name" not in node["metadata"]["labels"]


def labels(
    summary: dict[str, str] | None = None,
    excluded: str | None = None,
    current: dict[str, str] | None = None,
    applied: str | None = None,
) -> Labels:
    return desired_labels(BASE, summary, excluded, current, applied)


def test_a_target_that_has_told_nothing_gives_the_base_labels() -> None:
    assert labels().labels == BASE


def test_labels_of_the_target_override_base_labels_but_not_who_the_node_is() -> None:
    summary = {"type": "metal", "region": "eu", "virtual-kubelet.io/provider": "azure", P + "target-name": "x"}
    assert labels(summary).labels == {**BASE, "type": "metal", "region": "eu"}


def test_what_a_target_may_not_say_of_a_node_of_this_cluster_is_not_taken() -> None:
    summary = {
        "node-role.kubernetes.io/control-plane": "",
        "team.node-restriction.kubernetes.io/secure": "yes",
        "node-restriction.kubernetes.io/secure": "yes",
        "node.kubernetes.io/instance-type": "large",
    }
    assert labels(summary).labels == {**BASE, "node.kubernetes.io/instance-type": "large"}
    before = labels({"region": "eu"})
    applied = before.applied.replace("region", "node-role.kubernetes.io/control-plane")
    current = {**BASE, "node-role.kubernetes.io/control-plane": "", "node-role.kubernetes.io/mine": ""}
    after = labels(summary, None, current, applied)
    assert after.labels.keys() - BASE.keys() == {"node-role.kubernetes.io/mine", "node.kubernetes.io/instance-type"}


def test_a_virtual_node_never_has_the_label_of_host_names() -> None:
    assert "kubernetes.io/hostname" not in labels().labels
    found = desired_labels(BASE, {"kubernetes.io/hostname": "n1"}, None, {}, None)
    assert "kubernetes.io/hostname" not in found.labels


@pytest.mark.parametrize(
    ("regexp", "want"),
    [
        ("^k1=", {"k2", "prefix.io/k1"}),
        ("k1=", {"k2"}),
        (r"^prefix\.io/", {"k1", "k2"}),
        ("^k1=v1$", {"k2", "prefix.io/k1"}),
        ("^k1=|^k2=", {"prefix.io/k1"}),
        ("", {"k1", "k2", "prefix.io/k1"}),
        (None, {"k1", "k2", "prefix.io/k1"}),
    ],
)
def test_vectors_of_8_3_labels_of_the_target_are_excluded_as_admiralty_excludes_them(
    regexp: str | None, want: set[str]
) -> None:
    summary = {"k1": "v1", "k2": "v2", "prefix.io/k1": "v1"}
    assert labels(summary, regexp).labels.keys() - BASE.keys() == want


def test_an_invalid_regexp_is_an_error() -> None:
    with pytest.raises(InvalidPattern):
        labels({"a": "b"}, "(")


def test_labels_that_users_gave_the_node_survive_and_ours_that_are_no_longer_wanted_go() -> None:
    first = labels({"region": "eu", "zone": "a"})
    current = {**first.labels, "mine": "1", "multicluster/tier": "gold"}
    second = labels({"region": "us"}, None, current, first.applied)
    assert second.labels == {**BASE, "region": "us", "mine": "1", "multicluster/tier": "gold"}


def test_a_users_label_survives_where_the_target_says_otherwise() -> None:
    first = labels()
    current = {**first.labels, "region": "mine"}
    second = labels({"region": "eu"}, None, current, first.applied)
    assert second.labels["region"] == "mine"
    third = labels({}, None, second.labels, second.applied)
    assert third.labels["region"] == "mine"


def test_who_the_node_is_cannot_be_relabelled() -> None:
    first = labels()
    current = {**first.labels, P + "target-name": "other", "virtual-kubelet.io/provider": "x"}
    assert labels(None, None, current, first.applied).labels == BASE


@pytest.mark.parametrize("applied", [None, "{", "{}", "7"])
def test_on_a_node_of_unknown_history_ours_win_and_the_rest_stays(applied: str | None) -> None:
    current = {"region": "old", "mine": "1"}
    assert labels({"region": "eu"}, None, current, applied).labels == {**BASE, "region": "eu", "mine": "1"}


def test_labels_that_are_right_stay_as_they_are() -> None:
    first = labels({"region": "eu"})
    assert labels({"region": "eu"}, None, first.labels, first.applied) == first


def status(current: dict[str, Any] | None = None, **over: Any) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "resources": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3"}},
        "reachable": "True",
        "reason": "Reachable",
        "message": "it answers",
        "address": "10.0.0.1",
        "port": 10251,
        "version": "v1.36.3",
        "now": NOON,
    }
    return node_status(current, **{**arguments, **over})


def test_the_status_says_how_much_where_and_how_it_goes() -> None:
    def condition(kind: str, reason: str, message: str) -> dict[str, str]:
        return {
            "type": kind,
            "status": "True",
            "reason": reason,
            "message": message,
            "lastTransitionTime": "2026-01-01T12:00:00Z",
        }

    assert status() == {
        "capacity": {"cpu": "4"},
        "allocatable": {"cpu": "3"},
        "conditions": [
            condition(
                "Ready",
                "VirtualNodeReady",
                "the agent stands in for this node's kubelet; TargetReachable says whether the target answers",
            ),
            condition(TARGET_REACHABLE, "Reachable", "it answers"),
        ],
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10251}},
        "nodeInfo": {"kubeletVersion": "v1.36.3"},
    }


def test_an_unchanged_status_is_equal_later() -> None:
    assert status(status(), now=NOON + timedelta(hours=1)) == status()


def test_a_lost_target_keeps_its_amounts_and_stays_ready_for_a_while() -> None:
    lost = status(status(), resources=None, reachable="False", reason="Unreachable", message="no route")
    assert lost["capacity"] == {"cpu": "4"}
    ready, reachable = (find_condition(lost["conditions"], kind) for kind in ("Ready", TARGET_REACHABLE))
    assert ready is not None
    assert (ready["status"], ready["reason"]) == ("True", "VirtualNodeReady")
    assert reachable is not None
    assert (reachable["status"], reachable["message"]) == ("False", "no route")


def test_a_target_that_never_told_has_no_amounts() -> None:
    assert "capacity" not in status(resources=None)


def test_what_others_wrote_into_the_status_survives() -> None:
    before = {
        "conditions": [{"type": "Other", "status": "True"}],
        "images": [{"names": ["x"]}],
        "nodeInfo": {"architecture": "", "kubeletVersion": "old"},
    }
    after = status(before)
    assert after["conditions"][0] == {"type": "Other", "status": "True"}
    assert after["images"] == [{"names": ["x"]}]
    assert after["nodeInfo"] == {"architecture": "", "kubeletVersion": "v1.36.3"}


def test_what_is_empty_is_left_out_as_the_api_server_leaves_it_out() -> None:
    assert (
        not {"addresses", "capacity", "allocatable"}
        & status(status(), address="", resources={"capacity": {}, "allocatable": {}}).keys()
    )


TWO_SIZES = {"cpu": "4", "hugepages-2Mi": "1Gi", "hugepages-1Gi": "2Gi"}
ONE_SIZE = {"cpu": "4", "hugepages-2Mi": "1Gi", "hugepages-1Gi": "0"}
NO_PAGES = {"cpu": "4"}


@pytest.mark.parametrize(
    ("there", "several_here", "want"),
    [
        pytest.param(TWO_SIZES, False, NO_PAGES, id="two sizes there, not two here"),
        pytest.param(TWO_SIZES, True, TWO_SIZES, id="two sizes there and here"),
        pytest.param(ONE_SIZE, False, ONE_SIZE, id="one size there"),
        pytest.param(ONE_SIZE, True, ONE_SIZE, id="one size there, two here"),
        pytest.param(NO_PAGES, False, NO_PAGES, id="none there"),
        pytest.param({**TWO_SIZES, "hugepages-64Ki": "0"}, False, {"cpu": "4", "hugepages-64Ki": "0"}, id="zero stays"),
    ],
)
def test_huge_pages_of_a_target_are_shown_as_admiralty_shows_them(
    there: dict[str, str], several_here: bool, want: dict[str, str]
) -> None:
    found = amounts({"capacity": there, "allocatable": there}, several_huge_pages=several_here)
    assert found == {"capacity": want, "allocatable": {**want, "pods": "0"}}


def test_no_pod_fits_on_a_virtual_node_by_what_schedulers_go_by() -> None:
    sums = {"cpu": "4", "pods": "110"}
    found = amounts({"capacity": sums, "allocatable": sums}, several_huge_pages=False)
    assert found == {"capacity": sums, "allocatable": {"cpu": "4", "pods": "0"}}
    assert is_closed({"status": found})
    assert is_closed({"status": {}})
    assert not is_closed({"status": {"allocatable": sums}})


def test_a_summary_without_amounts_gives_none() -> None:
    assert amounts({}, several_huge_pages=False) == {"capacity": {}, "allocatable": {}}


@pytest.mark.parametrize(
    ("capacity", "several"), [(TWO_SIZES, True), (ONE_SIZE, False), (NO_PAGES, False), (None, False)]
)
def test_sizes_of_huge_pages_count_when_there_are_pages_of_them(capacity: dict[str, str] | None, several: bool) -> None:
    assert has_several_huge_pages(capacity) is several


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        (
            '[{"count":3,"free":[{"amounts":{"cpu":"1500m","memory":"1Gi"},"count":2},{"amounts":{"cpu":"1"}}]}]',
            '{"cpu":"4","memory":"2Gi"}',
        ),
        ('[{"count":1,"free":[{"amounts":{}}]}]', "{}"),
        ('[{"count":3,"free":[{"amounts":{"cpu":"1"}}]}]', ""),
        ('[{"count":1}]', ""),
        ('[{"count":1,"free":[{"amounts":{"cpu":"x"}}]}]', ""),
        ("no", ""),
        (None, ""),
    ],
    ids=["of all nodes", "nothing", "of the best nodes only", "not told", "no quantity", "no JSON", "no shapes"],
)
def test_what_is_free_in_a_target_is_the_sum_over_all_its_nodes(shapes: str | None, expected: str) -> None:
    annotations = {"multicluster/node-shapes": shapes} if shapes is not None else {}
    assert free({"metadata": {"annotations": annotations}}) == expected
