"""No object that a user can create stops the event loop of the webhook; the rows are in `tests/large_objects.py`."""

import copy
import io
from typing import Any

import aiohttp
import msgspec
import pytest

from agent.model.proxypod import InvalidPod, proxy_pod
from tests import large_objects
from tests.stalls import StallWatch
from tests.webhook.reviews import review
from tests.webhook.test_server import Running, serving, trusting
from webhook.configurations import PATH, PATH_BY_DEFAULT, PATH_CHANGED, PATH_WORKLOADS

Raw = dict[str, Any]

BODY_BYTES = 4 << 20
"""Default of the flag --body-limit."""


async def answered(webhook: Running, path: str, obj: Raw, **request: Any) -> StallWatch:
    """Post one request to the webhook, and return the watchdog that ran meanwhile."""
    body = msgspec.json.encode(review(obj, **request))
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting(webhook.ca))) as http,
        StallWatch() as watch,
        http.post(webhook.url(path), data=io.BytesIO(body)) as response,
    ):
        # 413: the size of a decoded body is limited.
        assert response.status in (200, 413), await response.text()
        await response.read()
    return watch


@pytest.mark.parametrize("field", large_objects.PODS)
async def test_a_pod_of_the_largest_size_leaves_the_loop_free(field: str) -> None:
    pod = large_objects.PODS[field]("default", "large")
    plain = copy.deepcopy(pod)
    plain["metadata"]["annotations"] = {"a": "b"}
    workload = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "large", "namespace": "default"},
        "spec": {"template": {"metadata": pod["metadata"], "spec": pod["spec"]}},
    }
    async with serving(BODY_BYTES) as webhook:
        assert (await answered(webhook, PATH, pod)).flaw() == ""
        assert (await answered(webhook, PATH_BY_DEFAULT, plain)).flaw() == ""
        assert (await answered(webhook, PATH_WORKLOADS, workload)).flaw() == ""


@pytest.mark.full("The test of a new pod sends the same large objects.")
@pytest.mark.parametrize("field", large_objects.PODS)
async def test_a_change_of_a_pod_of_the_largest_size_leaves_the_loop_free(field: str) -> None:
    pod = large_objects.PODS[field]("default", "large")
    try:
        proxy = proxy_pod(pod, ["multicluster.admiralty.io/default-c2"])
    except InvalidPod:
        pytest.skip("no such pod is created")
    async with serving(BODY_BYTES) as webhook:
        assert (await answered(webhook, PATH_CHANGED, pod, operation="UPDATE", oldObject=proxy)).flaw() == ""
