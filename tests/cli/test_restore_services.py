"""Fields that uninstalling removes from a Service, without a cluster."""

from typing import Any

import pytest

from agent.api.kinds import SERVICES
from agent.cli.restore_services import _undone
from agent.kube.client import encode
from agent.kube.store import Object

MEMBER, OURS = "mirror.linkerd.io/federated", "multicluster/linkerd"


@pytest.mark.parametrize(
    ("labels", "want"),
    [
        ({MEMBER: "member", OURS: "federated", "app": "web"}, {MEMBER: None, OURS: None}),
        # The user has added the label.
        ({MEMBER: "member", "app": "web"}, {}),
        ({"app": "web"}, {}),
    ],
)
def test_a_service_is_no_member_any_more_where_we_have_made_it_one(
    labels: dict[str, str], want: dict[str, Any]
) -> None:
    metadata = {"namespace": "shop", "name": "web", "uid": "u", "resourceVersion": "7", "labels": labels}
    service = Object(SERVICES, encode({"metadata": metadata, "spec": {"selector": {"app": "web"}}}))
    patch = _undone(service)
    assert patch.get("metadata", {}).get("labels", {}) == want
    assert bool(patch) == bool(want)
