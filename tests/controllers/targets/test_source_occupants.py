"""Pods that run as the account of a Source, and the consequences for the account and its rights."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import CHAPERONS, PODS
from agent.base.clock import stamp
from agent.kube.store import Object
from agent.targets.source.decide import exclusive
from agent.targets.source.occupants import (
    Account,
    Occupant,
    Occupation,
    is_ending,
    obstacle,
    occupant,
    pause,
    shared_with,
)

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
ACCOUNT = ("team", "cd")
SINCE = NOW - timedelta(hours=1)
OLD, YOUNG = SINCE - timedelta(seconds=1), SINCE + timedelta(seconds=1)


def pod(name: str = "web", *, created: datetime = OLD, ends: float | None = None, delegate: bool = True) -> Occupant:
    """Return a pod whose grace period ends in so many seconds."""
    return Occupant(name, name, created, None if ends is None else NOW + timedelta(seconds=ends), delegate)


def occupied(
    *pods: Occupant,
    since: datetime | None = None,
    another: bool = False,
    granted: bool = True,
    foreign: bool = False,
) -> Occupation:
    return Occupation(Account(ACCOUNT, since, another, foreign), granted, pods)


@pytest.mark.parametrize(
    ("found", "deleted", "waits"),
    [
        (occupied(pod()), ["web"], True),
        (occupied(pod(delegate=False)), [], True),
        (occupied(pod(ends=10)), [], True),
        # A grace period of an hour is cut short.
        (occupied(pod(ends=3600)), ["web"], True),
        (occupied(pod(ends=-60)), [], True),
        # The API server rejects its tokens by now: a lost node does not delay the account forever.
        (occupied(pod(ends=-121)), [], False),
        (occupied(), [], False),
        (occupied(pod(), since=SINCE, another=True), ["web"], False),
        (occupied(pod(created=YOUNG), since=SINCE, another=True), [], False),
        (occupied(pod(created=SINCE), since=SINCE, another=True), [], False),
        # An agent that has just been started cannot tell when the account was deleted: an upgrade keeps pods.
        (occupied(pod(), since=SINCE), [], False),
        # A Source deletes no pods of another namespace, even if `userName` names its account.
        (occupied(pod(), foreign=True), [], True),
        (occupied(pod(), since=SINCE, another=True, foreign=True), [], False),
    ],
)
def test_delegates_that_have_outlived_their_account_go_before_it_comes(
    found: Occupation, deleted: list[str], waits: bool
) -> None:
    assert [each.name for each in found.to_delete(NOW)] == deleted
    assert found.must_wait(NOW) == waits


@pytest.mark.parametrize(
    ("found", "withheld"),
    [
        (occupied(pod(created=YOUNG), since=SINCE, granted=False), True),
        (occupied(pod(created=YOUNG), since=SINCE), False),
        (occupied(pod(created=YOUNG, delegate=False), since=SINCE, granted=False), False),
        (occupied(pod(created=YOUNG, ends=-121), since=SINCE, granted=False), False),
        (occupied(since=SINCE, granted=False), False),
        # A source orphaned its delegate, deleted the account and created it again: the pod gets its tokens.
        (occupied(pod(delegate=False), since=SINCE, another=True), True),
        (occupied(pod(), since=SINCE, another=True), True),
        (occupied(pod(delegate=False, ends=-121), since=SINCE, another=True), False),
        (occupied(pod(created=YOUNG, delegate=False), since=SINCE, another=True), False),
        (occupied(pod(delegate=False), since=SINCE), False),
    ],
)
def test_an_account_that_pods_of_others_would_share_gets_no_rights(found: Occupation, withheld: bool) -> None:
    assert found.is_withheld(NOW) == withheld
    assert bool(obstacle([found], NOW)) == withheld


def test_messages_name_a_few_pods_and_count_the_others() -> None:
    many = occupied(*(pod(f"web-{number}") for number in range(8)))
    message = obstacle([many], NOW)
    assert "ServiceAccount team/cd does not exist" in message
    assert "pods web-0, web-1, web-2, web-3, web-4 and 3 more" in message
    assert "ServiceAccount team/cd is also that of pods web-0, web-1" in shared_with([many])
    assert shared_with([occupied()]) == ""


def test_pods_of_other_namespaces_are_counted_and_not_named() -> None:
    for found in (occupied(pod("web"), foreign=True), occupied(pod("web"), since=SINCE, another=True, foreign=True)):
        assert ": 1 pod; delete these" in obstacle([found], NOW)
        assert "is also that of 1 pod," in shared_with([found])
        assert "web" not in obstacle([found], NOW) + shared_with([found])


@pytest.mark.parametrize(
    ("found", "ending"),
    [
        (occupied(pod()), True),
        (occupied(pod(delegate=False, ends=10)), True),
        (occupied(pod(created=YOUNG), since=SINCE, granted=False), True),
        # Users' pods may stay for years.
        (occupied(pod(delegate=False)), False),
        (occupied(pod(delegate=False), since=SINCE, another=True), False),
        (occupied(pod(), foreign=True), False),
        # Not an obstacle.
        (occupied(pod(created=YOUNG, ends=10), since=SINCE), False),
    ],
)
def test_pods_are_listed_often_only_while_some_are_ending(found: Occupation, ending: bool) -> None:
    assert is_ending([found], NOW) == ending
    assert pause([found]) == 60


def test_pods_are_listed_again_while_none_runs_as_the_account() -> None:
    assert pause([occupied(since=SINCE)]) == 600
    assert pause([]) is None


def test_a_pod_is_a_delegate_by_its_controller_alone() -> None:
    owner: dict[str, Any] = {
        "apiVersion": CHAPERONS.api_version,
        "kind": CHAPERONS.name,
        "uid": "C",
        "controller": True,
    }
    metadata = {
        "name": "web",
        "uid": "U",
        "creationTimestamp": stamp(OLD),
        "deletionTimestamp": stamp(NOW),
        "labels": {names.LABEL_PARENT_UID: "P"},
        "ownerReferences": [owner],
    }

    def read(**changed: Any) -> Occupant:
        return occupant(Object(PODS, json.dumps({"metadata": metadata | changed}).encode()))

    assert read() == pod("web", ends=0)._replace(uid="U")
    for other in ({**owner, "controller": False}, {**owner, "kind": "Job"}, {**owner, "apiVersion": "team.example/v1"}):
        assert not read(ownerReferences=[other]).is_delegate
    # A source may remove labels of its delegates by live changes.
    assert read(labels={}).is_delegate
    assert not read(ownerReferences=[]).is_delegate


def test_an_account_of_all_pods_is_told_first_and_an_electing_namespace_last() -> None:
    wide = {"spec": {"serviceAccount": {"name": "cd", "namespace": "team"}}}
    assert exclusive(("", "cd"), wide, "", elects=False)[1:3] == ("True", "Exclusive")
    assert exclusive(("", "cd"), wide, "", elects=True)[1:3] == ("False", "NamespaceElects")
    assert exclusive(("", "cd"), wide, "pod web", elects=True)[1:3] == ("False", "PodsRunAsIt")
    default = {"spec": {"serviceAccountName": "default"}}
    assert exclusive(("team", "cd"), default, "", elects=False)[1:3] == ("False", "DefaultAccount")
