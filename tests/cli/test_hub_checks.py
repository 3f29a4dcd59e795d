"""Doctor's checks of a hub: requests that wait, and members that are not well; without clusters."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agent.api.conditions import timestamp
from agent.api.hubpolicies import ACCEPTANCE
from agent.cli.checks.finding import Level
from agent.cli.checks.members import members
from agent.cli.checks.view import ClusterView, View
from agent.cli.hubs.asked import Asked

Raw = dict[str, Any]

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
AVAILABLE, CLOCK = "ManagedClusterConditionAvailable", "ManagedClusterConditionClockSynced"


def said(type: str, status: str = "True", reason: str = "R", ago: float = 3600.0) -> Raw:
    moment = timestamp(NOW - timedelta(seconds=ago))
    return {"type": type, "status": status, "reason": reason, "message": f"of {type}", "lastTransitionTime": moment}


def member(*conditions: Raw, **labels: str) -> Raw:
    return {"metadata": {"name": "us", "labels": labels}, "status": {"conditions": list(conditions)}}


ACCEPTED, JOINED = said("HubAcceptedManagedCluster"), said("ManagedClusterJoined")
WELL = member(ACCEPTED, JOINED, said(AVAILABLE), said(CLOCK))


def asked(state: str = "waits", ago: float = 3600.0) -> Asked:
    return Asked(
        "us-1", "us", "system:bootstrap:abcdef", timestamp(NOW - timedelta(seconds=ago)), state, "u", "sha256:00"
    )


def found(*clusters: Raw, requests: tuple[Asked, ...] = (), address: str | None = "https://hub") -> list[str]:
    view = View(NOW, "1", ClusterView("c"), policies=frozenset([ACCEPTANCE]), members=clusters, asked=requests)
    found = list(members(View(**{**vars(view), "hub_address": address})))
    return [str(each) for each in found if each.level is not Level.OK]


def test_a_cluster_that_is_no_hub_is_not_checked() -> None:
    assert list(members(View(NOW, "1", ClusterView("c"), policies=frozenset(), asked=(asked(),)))) == []


def test_a_hub_whose_members_are_well_is_well() -> None:
    assert found(WELL, requests=(asked(ago=10), asked("approved"), asked("denied"))) == []


@pytest.mark.parametrize(
    ("cluster", "text"),
    [
        (member(ACCEPTED, JOINED, said(AVAILABLE, "Unknown")), "it is not available"),
        (member(ACCEPTED, JOINED, said(AVAILABLE), said(CLOCK, "False")), f"of {CLOCK}"),
        (member(ACCEPTED), "it is accepted and has not joined"),
        (member(said("HubAcceptedManagedCluster", "False", "Error")), "it is accepted, and has no rights"),
        (member(ACCEPTED, JOINED, said("Deleting", "False")), "flotilla hub remove us --abandon"),
    ],
)
def test_a_member_that_is_not_well_is_found(cluster: Raw, text: str) -> None:
    (only,) = found(cluster)
    assert text in only


def test_members_that_wait_denied_ones_and_those_of_targets_are_no_flaws() -> None:
    denied = member(said("HubAcceptedManagedCluster", "False", "HubClusterAdminDenied"))
    ours = member(ACCEPTED, JOINED, said(AVAILABLE, "Unknown"), **{"multicluster/ours": "true"})
    assert found(member(), member(said("HubAcceptedManagedCluster", ago=10)), denied, ours) == []


def test_requests_that_wait_or_are_ignored_are_found() -> None:
    waits, ignored = found(requests=(asked(), asked("ignored: it has no name")))
    assert "flotilla hub accept us --key sha256:00" in waits
    assert "it has no name" in ignored


def test_a_hub_without_a_published_address_is_found() -> None:
    (only,) = found(address=None)
    assert "flotilla hub init" in only
