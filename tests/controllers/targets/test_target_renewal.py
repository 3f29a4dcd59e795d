"""Renewal of tokens, and the conditions if it fails."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.api.conditions import find_condition
from agent.model.token import Claims
from agent.targets.target.gather import Reference, fingerprint, identity
from agent.targets.target.tokens import (
    CONDITION,
    renewal_problem,
    seconds_until_due,
    seconds_until_retry,
    token_request,
    with_renewed_condition,
)
from tests.model.test_token import token

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CLAIMS = Claims("team", "cd", NOW, NOW + timedelta(days=10), ("api",))
PLACE = Reference(("team", "us"), "config", "")


@pytest.mark.parametrize(("age", "want"), [(0, 8), (7, 1), (8, 0), (11, 0), (-1, 9)])
def test_a_token_is_due_when_the_given_part_of_its_life_is_over(age: int, want: int) -> None:
    assert seconds_until_due(CLAIMS, NOW + timedelta(days=age), 0.8) == pytest.approx(want * 86400)


def test_the_same_is_asked_for_again() -> None:
    asked = token_request(CLAIMS)
    assert asked["metadata"]["name"] == "cd"
    assert asked["spec"] == {"expirationSeconds": 864000, "audiences": ["api"]}


@given(st.floats(-1e7, 1e7))
def test_tries_come_more_often_as_the_end_comes_near_and_never_all_the_time(seconds: float) -> None:
    pause = seconds_until_retry(CLAIMS, CLAIMS.expires - timedelta(seconds=seconds))
    assert 10 <= pause <= 600
    assert pause <= max(10, seconds / 10)


def test_a_failure_is_told_with_the_remedy_and_success_only_after_one() -> None:
    assert with_renewed_condition([], "", 1, NOW) == []
    message = renewal_problem("Secret team/us", CLAIMS, "forbidden")
    assert "ends at 2026-01-11T00:00:00Z" in message
    assert "`flotilla join` again" in message
    failed = with_renewed_condition([], message, 1, NOW)
    assert (find_condition(failed, CONDITION) or {})["status"] == "False"
    assert (find_condition(with_renewed_condition(failed, "", 1, NOW), CONDITION) or {})["status"] == "True"


def kubeconfig(text: str, server: str = "https://us") -> bytes:
    return (
        f"current-context: us\ncontexts: [{{name: us, context: {{cluster: us, user: us}}}}]\n"
        f"clusters: [{{name: us, cluster: {{server: '{server}'}}}}]\nusers: [{{name: us, user: {{token: '{text}'}}}}]\n"
    ).encode()


def test_a_later_token_of_the_same_account_is_the_same_identity_and_nothing_else_is() -> None:
    first = identity(PLACE, kubeconfig(token()))
    assert identity(PLACE, kubeconfig(token(exp=2_000_000_000))) == first
    others = (
        kubeconfig(token(sub="system:serviceaccount:team:us")),
        kubeconfig(token(), "https://eu"),
        kubeconfig("opaque"),
        kubeconfig("other"),
        b"{",
    )
    assert len({first, *(identity(PLACE, data) for data in others)}) == 6
    assert fingerprint(PLACE, kubeconfig(token())) != fingerprint(PLACE, kubeconfig(token(exp=2_000_000_000)))
