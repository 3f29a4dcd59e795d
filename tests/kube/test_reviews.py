"""Permission checks: one rules review if the API server's answer is complete, else one review per verb."""

from collections.abc import Sequence
from typing import Any

import pytest
from aiohttp import web

from agent.api.kinds import CONFIGMAPS, NODES, PODS, SECRETS, SELF_ACCESS_REVIEWS, SELF_RULES_REVIEWS, Kind
from agent.kube.client import Client
from agent.kube.config import Connection
from agent.kube.reviews import we_lack
from agent.kube.session import Session
from tests.kube.test_session import serving

Raw = dict[str, Any]
RULES, ACCESS = SELF_RULES_REVIEWS.path(), SELF_ACCESS_REVIEWS.path()
READS: Raw = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "secrets"]}
ASKED = [(PODS, "list"), (PODS, "create"), (SECRETS, "get")]


async def lacking(
    namespace: str, asked: Sequence[tuple[Kind, str]], status: Raw | int
) -> tuple[list[tuple[Kind, str]], list[str]]:
    """Return the missing permissions and the reviews sent, for a server that gives this rules review and allows
    every verb."""
    paths = list[str]()

    async def answer(request: web.Request) -> web.Response:
        paths.append(request.path)
        if request.path == ACCESS:
            return web.json_response({"status": {"allowed": True}})
        return (
            web.json_response({}, status=status) if isinstance(status, int) else web.json_response({"status": status})
        )

    async with serving(answer) as address, Session(Connection(server=address)) as session:
        return await we_lack(Client(session), namespace, asked), paths


async def test_one_review_tells_what_is_lacking_in_a_namespace() -> None:
    assert await lacking("apps", ASKED, {"resourceRules": [READS]}) == ([(PODS, "create")], [RULES])


@pytest.mark.parametrize(
    ("rule", "want"),
    [
        ({}, True),
        ({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, True),
        ({"resources": ["pods/log"]}, False),
        ({"apiGroups": ["apps"]}, False),
        ({"verbs": ["watch"]}, False),
        ({"resourceNames": ["one"]}, False),
    ],
    ids=["all of it", "stars", "a subresource", "another group", "another verb", "one object alone"],
)
async def test_a_rule_counts_where_it_is_about_all_objects_of_the_kind(rule: Raw, want: bool) -> None:
    found, paths = await lacking("apps", [(PODS, "get"), (PODS, "list")], {"resourceRules": [READS | rule]})
    assert (found == [], paths) == (want, [RULES])


@pytest.mark.parametrize(
    "status",
    [
        {"resourceRules": [], "incomplete": True},
        {"resourceRules": [], "evaluationError": "a role is not found"},
        403,
        404,
    ],
    ids=["incomplete", "in error", "forbidden", "not served"],
)
async def test_where_rules_are_not_all_that_counts_each_verb_is_asked_for(status: Raw | int) -> None:
    assert await lacking("apps", ASKED, status) == ([], [RULES, ACCESS, ACCESS, ACCESS])


@pytest.mark.parametrize(
    ("namespace", "asked"),
    [("", ASKED), ("apps", [(NODES, "list"), (PODS, "list")]), ("apps", [(CONFIGMAPS, "get")])],
    ids=["of all namespaces", "of a kind without namespaces", "of one verb"],
)
async def test_rules_of_a_namespace_are_not_asked_for(namespace: str, asked: list[tuple[Kind, str]]) -> None:
    found, paths = await lacking(namespace, asked, {"resourceRules": []})
    assert (found, paths) == ([], [ACCESS] * len(asked))
