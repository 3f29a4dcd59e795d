"""Pods that a drain evicts and pods that block it; without clusters."""

from typing import Any

import pytest

from agent.cli.draining.plan import DAEMONSETS, EMPTYDIR, UNMANAGED, Options, plan

Raw = dict[str, Any]


def pod(
    name: str, owner: str = "ReplicaSet", *, phase: str = "Running", empty: bool = False, going: bool = False
) -> Raw:
    metadata: Raw = {"namespace": "default", "name": name, "uid": f"uid-{name}"}
    if owner:
        metadata["ownerReferences"] = [{"kind": "Other", "name": "x"}, {"kind": owner, "controller": True}]
    if going:
        metadata["deletionTimestamp"] = "2026-01-01T12:00:00Z"
    volumes = [{"name": "tmp", "emptyDir": {}}] if empty else []
    return {"metadata": metadata, "spec": {"volumes": volumes}, "status": {"phase": phase}}


def test_pods_that_somebody_makes_again_are_evicted_in_order() -> None:
    found = plan([pod("b"), pod("a"), pod("c", "Job")], Options())
    assert [str(each) for each in found.evict] == ["default/a", "default/b", "default/c"]
    assert (found.stay, found.refused) == ((), {})


@pytest.mark.parametrize(
    ("raw", "why", "options"),
    [
        (pod("a", ""), UNMANAGED, Options(force=True)),
        (pod("a", empty=True), EMPTYDIR, Options(delete_emptydir_data=True)),
    ],
)
def test_what_would_be_lost_needs_to_be_given_away(raw: Raw, why: str, options: Options) -> None:
    refused = plan([raw], Options())
    assert (list(refused.refused), refused.evict) == ([why], ())
    allowed = plan([raw], options)
    assert (allowed.refused, [each.name for each in allowed.evict]) == ({}, ["a"])


def test_a_pod_of_a_daemon_set_stays_where_that_is_said_and_is_refused_else() -> None:
    refused = plan([pod("d", "DaemonSet")], Options(force=True, delete_emptydir_data=True))
    assert list(refused.refused) == [DAEMONSETS]
    stays = plan([pod("d", "DaemonSet")], Options(ignore_daemonsets=True))
    assert ([each.name for each in stays.stay], stays.evict, stays.refused) == (["d"], (), {})


@pytest.mark.parametrize("raw", [pod("a", "", phase="Succeeded", empty=True), pod("a", "", empty=True, going=True)])
def test_finished_and_terminating_pods_lose_nothing(raw: Raw) -> None:
    found = plan([raw], Options())
    assert ([each.name for each in found.evict], found.refused) == (["a"], {})


def test_a_terminating_pod_is_waited_for_and_known_as_such() -> None:
    [found] = plan([pod("a", going=True)], Options()).evict
    assert found.deleting
