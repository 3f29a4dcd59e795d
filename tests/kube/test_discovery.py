"""Discovery of the kinds that a real API server serves."""

import pytest

from agent.api.kinds import DEPLOYMENTS, NAMESPACES, TARGETS, Kind
from agent.kube.client import Client
from agent.kube.discovery import Discovery
from tests.kube.relay import Relay

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("kind", [DEPLOYMENTS, NAMESPACES, TARGETS])
async def test_a_kind_is_found_by_its_version_and_in_any(client: Client, kind: Kind) -> None:
    found = Discovery(client)
    assert await found.find(kind.api_version, kind.name) == kind
    assert await Discovery(client).find_any(kind.group, kind.name) == kind


@pytest.mark.parametrize(
    ("api_version", "name"),
    [
        ("apps/v1", "Nothing"),
        ("apps/v1", "Scale"),
        ("apps/v2", "Deployment"),
        ("example.com/v1", "Deployment"),
        ("", "Pod"),
        ("v1/../../apis/apps/v1", "Deployment"),
        ("../api/v1", "Pod"),
        ("apps/v1?x=", "Deployment"),
    ],
)
async def test_what_is_not_served_is_not_found(client: Client, api_version: str, name: str) -> None:
    assert await Discovery(client).find(api_version, name) is None


async def test_a_version_is_asked_for_once_and_again_for_what_was_not_in_it(relay: Relay, relayed: Client) -> None:
    found = Discovery(relayed)
    for name in ("Deployment", "StatefulSet", "Deployment"):
        kind = await found.find("apps/v1", name)
        assert kind is not None
    assert await found.find_any("apps", "DaemonSet")
    assert relay.requests == [("GET", "/apis/apps/v1")]
    await found.find("apps/v1", "Nothing")
    found.forget(kind)
    await found.find("apps/v1", "Deployment")
    assert len(relay.requests) == 3
