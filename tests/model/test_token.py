import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.model.token import claims

ISSUED = datetime(2026, 1, 1, tzinfo=UTC)
PAYLOAD: dict[str, Any] = {
    "sub": "system:serviceaccount:team:cd",
    "iat": int(ISSUED.timestamp()),
    "exp": int((ISSUED + timedelta(days=10)).timestamp()),
    "aud": ["https://kubernetes.default.svc"],
}


def token(**changed: Any) -> str:
    payload = {key: value for key, value in (PAYLOAD | changed).items() if value is not None}
    return f"x.{base64.urlsafe_b64encode(json.dumps(payload).encode()).decode().rstrip('=')}.y"


def test_a_token_of_a_service_account_says_whose_it_is_and_when_it_ends() -> None:
    found = claims(token())
    assert found is not None
    assert (found.namespace, found.account, found.audiences) == ("team", "cd", ("https://kubernetes.default.svc",))
    assert found.seconds == 10 * 86400
    assert found.used(ISSUED + timedelta(days=8)) == pytest.approx(0.8)


def test_one_audience_need_not_be_in_a_list() -> None:
    found = claims(token(aud="me"))
    assert found is not None
    assert found.audiences == ("me",)


@pytest.mark.parametrize(
    "text",
    [token(exp=None), token(iat=None), token(sub="alice"), token(sub="system:serviceaccount:team"), "", "a.b", "a.b.c"],
    ids=["without an end", "without a beginning", "of a user", "of nobody", "empty", "of two parts", "of no JSON"],
)
def test_any_other_token_has_no_claims(text: str) -> None:
    assert claims(text) is None


def test_a_token_that_ends_before_it_begins_is_used_up() -> None:
    found = claims(token(exp=PAYLOAD["iat"]))
    assert found is not None
    assert found.used(ISSUED) == 1.0


@given(st.text())
def test_no_text_breaks_it(text: str) -> None:
    for each in (text, f"a.{text}.c", f"a.{base64.urlsafe_b64encode(text.encode('utf-8', 'replace')).decode()}.c"):
        claims(each)
