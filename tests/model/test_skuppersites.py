"""Skupper sites and their links: created objects, ownership of tokens, and reasons to exclude a cluster."""

from typing import Any

import pytest

from agent.model import skuppersites
from tests.model.test_skupper import said

READY = {"status": "Ready", "url": "https://x", "code": "c", "ca": "PEM", "redemptions": 0}
NAME = skuppersites.token_name("eu", "uid-of-us")


def test_a_token_is_made_of_a_grant_that_is_ready() -> None:
    found = skuppersites.token({"status": READY}, "shop", NAME)
    assert found is not None
    assert found["spec"] == {"url": "https://x", "code": "c", "ca": "PEM"}
    assert found["metadata"]["name"] == NAME
    for missing in ({"status": "Pending"}, {"code": ""}, {"ca": None}):
        assert skuppersites.token({"status": {**READY, **missing}}, "shop", NAME) is None
    assert skuppersites.token({}, "shop", NAME) is None


def test_two_sources_that_call_a_target_the_same_have_tokens_of_their_own() -> None:
    names = {
        NAME,
        skuppersites.token_name("eu", "uid-of-de"),
        skuppersites.token_name("cn", "uid-of-us"),
        skuppersites.grant_name("eu"),
    }
    assert len(names) == 4
    assert all(len(name) <= 63 for name in names)


def test_a_token_is_known_by_the_code_of_its_grant() -> None:
    token = {"spec": {"url": "https://x", "code": "c", "ca": "PEM"}}
    assert skuppersites.is_made_of(token, {"status": READY})
    for other in (None, {}, {"status": {}}, {"status": {"code": ""}}, {"status": {"code": "another"}}):
        assert not skuppersites.is_made_of(token, other)
    assert not skuppersites.is_made_of({"spec": {}}, {"status": {}})


SITE = said("Site", Configured="True", Running="True")
NO_ROUTER = said("Site", "Pending", "no router", Configured="True")


@pytest.mark.parametrize(
    ("sites", "reason", "words"),
    [
        ([SITE], "", ""),
        ([], "NoSite", "annotate namespace shop multicluster/skupper-site: true"),
        ([NO_ROUTER], "Pending", "Site x: no router"),
        ([NO_ROUTER, SITE], "", ""),
        ([said("Site", "Error", "boom", Configured="False")], "SkupperError", "Site x: boom"),
        ([{"kind": "Site", "metadata": {"name": "x"}}], "Pending", "see that it runs"),
    ],
)
def test_of_the_sites_of_a_namespace_one_has_to_run(sites: list[Any], reason: str, words: str) -> None:
    found = skuppersites.sited(sites, "shop")
    assert (found.reason if found is not None else "") == reason
    assert found is None or words in found.message


RESOLVED = {**said("Site", Configured="True", Running="True", Resolved="True"), "spec": {"linkAccess": "default"}}
UNRESOLVED = {**said("Site", "Pending", "Pending", Configured="True", Running="True", Resolved="False")}


@pytest.mark.parametrize(
    ("sites", "granted", "reason", "words"),
    [
        ([RESOLVED], None, "Pending", "is being made"),
        ([RESOLVED], said("AccessGrant", Processed="True", Resolved="True"), "Pending", "is being made"),
        ([NO_ROUTER], None, "Pending", "Site x: no router"),
        ([{**UNRESOLVED, "spec": {"linkAccess": "default"}}], None, "Pending", "Site x: not Resolved yet"),
        ([{**UNRESOLVED, "spec": {"linkAccess": "none"}}], None, "Pending", "is being made"),
        ([{**UNRESOLVED, "spec": {}}], None, "Pending", "is being made"),
        (
            [RESOLVED],
            said("AccessGrant", "Error", "Invalid duration", Processed="False"),
            "SkupperError",
            "AccessGrant x: Invalid duration",
        ),
        (
            [RESOLVED],
            said("AccessGrant", "Pending", "Pending", Processed="True", Resolved="False"),
            "Pending",
            "AccessGrant x: not Resolved yet",
        ),
    ],
)
def test_why_no_token_is_handed_out_is_told(sites: list[Any], granted: Any, reason: str, words: str) -> None:
    found = skuppersites.ungranted(sites, "shop", granted)
    assert (found.status, found.reason) == ("False", reason)
    assert words in found.message


@pytest.mark.parametrize(
    ("status", "reason", "words"),
    [
        ({"status": "Ready", "redeemed": True}, "", ""),
        ({}, "Pending", "is being made"),
        ({"status": "Error", "message": "403 (Forbidden)"}, "PeerUnreachable", f"AccessToken {NAME}: 403 (Forbidden)"),
        # Skupper reports this if the Site was deleted: no link remains.
        ({"status": "Error", "redeemed": True, "message": "deleted site"}, "PeerUnreachable", "deleted site"),
    ],
)
def test_a_token_that_failed_says_why(status: Any, reason: str, words: str) -> None:
    found = skuppersites.redeemed({"metadata": {"name": NAME}, "status": status})
    assert (found.reason if found is not None else "") == reason
    assert found is None or words in found.message


def link(name: str, operational: str, message: str = "OK", configured: str = "True") -> Any:
    found = said("Link", "Pending", message, Configured=configured, Operational=operational)
    return {**found, "metadata": {"name": name}}


@pytest.mark.parametrize(
    ("links", "words"),
    [
        ([link(NAME, "True")], None),
        ([link(NAME, "False", "Not operational")], f"Link {NAME}: Not operational"),
        ([link(NAME, "False", "no such secret", "False")], f"Link {NAME}: no such secret"),
        ([link(f"{NAME}-1", "False", "down"), link(f"{NAME}-2", "False", "down")], f"Link {NAME}-1: down"),
        ([link(f"{NAME}-1", "False", "down"), link(f"{NAME}-2", "True")], None),
        # A user's own links may reach the cluster.
        ([link(NAME, "False", "down"), link("mine", "True")], None),
        ([link("mine", "False", "down")], None),
        ([], f"AccessToken {NAME} is redeemed, and there is no Link: delete it"),
    ],
)
def test_a_link_that_is_down_keeps_a_cluster_out(links: list[Any], words: str | None) -> None:
    found = skuppersites.unlinked(links, NAME)
    assert (found.message if found is not None else None) is None if words is None else words in str(found)
    assert found is None or found.reason == "PeerUnreachable"
