"""Copies of objects of every size that API servers accept."""

from typing import Any

import pytest

from agent.api.kinds import CONFIGMAPS, SECRETS
from agent.dependencies.follow import FollowController
from agent.model.annotations import LIMIT
from tests.controllers.pair import Pair

pytestmark = pytest.mark.cluster

APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
DATA_LIMIT = 1 << 20
"""Bytes of a ConfigMap's or a Secret's values (kubernetes: pkg/apis/core/validation)."""


def filling(key: str, *, beside: int = 0) -> dict[str, Any]:
    """Return metadata whose one annotation fills what an object may have."""
    return {"annotations": {key: "y" * (LIMIT - len(key) - beside)}}


async def test_whatever_size_a_config_map_has_pods_find_it_in_their_target(pair: Pair) -> None:
    largest = {"a": "x" * (DATA_LIMIT // 2), "b": '"' * (DATA_LIMIT // 2)}
    await pair.create(CONFIGMAPS, "applied", data={"a": "1"}, metadata=filling(APPLIED))
    await pair.create(CONFIGMAPS, "annotated", data={"a": "2"}, metadata=filling("example.com/note"))
    await pair.create(CONFIGMAPS, "largest", data=largest, metadata=filling(APPLIED))
    await pair.create(SECRETS, "key", stringData={"a": "3"}, metadata=filling("example.com/note"))
    volumes: list[dict[str, Any]] = [
        {"name": f"v-{name}", "configMap": {"name": name}} for name in ("applied", "annotated", "largest")
    ]
    async with pair.at_work(FollowController):
        await pair.pod("web", volumes=[*volumes, {"name": "v-key", "secret": {"secretName": "key"}}])
        for name, data in (("applied", {"a": "1"}), ("annotated", {"a": "2"}), ("largest", largest)):
            copy = await pair.copy(CONFIGMAPS, name)
            assert copy["data"] == data, name
            assert APPLIED not in copy["metadata"]["annotations"]
        assert await pair.copy(SECRETS, "key")
