"""Authentication and authorization of users, by a real API server's reviews."""

import base64
import json

import pytest

from agent.api.kinds import CLUSTER_ROLE_BINDINGS, SUBJECT_ACCESS_REVIEWS
from tests.kubelet.scenes import Scene
from tests.waiting import until

pytestmark = [pytest.mark.cluster]


async def test_nobody_gets_in_without_a_right_and_with_one_only_as_far_as_it_goes(scene: Scene) -> None:
    metrics = await scene.account(metrics=["get"])
    pods = await scene.account(pods=["get"])
    proxy = await scene.account(proxy=["get"])
    exec_path = f"/exec/{scene.namespace}/web/main?command=sh&output=1"
    log_path = f"/containerLogs/{scene.namespace}/web/main"
    assert (await scene.ask("/pods"))[0] == 401
    assert (await scene.ask("/pods", "bad"))[0] == 401
    wanted = {
        (metrics, "/metrics/resource"): 200,
        (metrics, "/metrics/cadvisor"): 200,
        (metrics, "/stats/summary"): 403,
        (metrics, "/pods"): 403,
        (metrics, exec_path): 403,
        (pods, "/pods"): 200,
        (pods, "/runningpods/"): 200,
        (pods, "/metrics"): 403,
        (pods, log_path): 403,
        (proxy, "/pods"): 200,
        (proxy, "/healthz"): 200,
        (proxy, log_path): 200,
        # By GET as well as by POST: permission to read does not include running commands.
        (proxy, exec_path): 403,
    }
    found = {(who, path): (await scene.ask(path, who))[0] for who, path in wanted}
    assert found == wanted
    status, text = await scene.ask(exec_path, proxy, method="POST")
    assert status == 403
    assert "verb=create, resource=nodes, subresource(s)=['proxy']" in text


async def test_rights_on_one_virtual_node_are_none_on_another(scene: Scene) -> None:
    who = await scene.account(scene.node, pods=["get"])
    assert (await scene.ask("/pods", who))[0] == 200
    assert (await scene.ask("/pods", who, target="c2"))[0] == 403


async def test_a_verdict_counts_for_a_while(scene: Scene) -> None:
    who = await scene.account(pods=["get"])
    assert (await scene.ask("/pods", who))[0] == 200
    for binding in await scene.client.list(CLUSTER_ROLE_BINDINGS):
        if binding["metadata"]["name"].startswith(scene.namespace):
            await scene.client.delete(CLUSTER_ROLE_BINDINGS, binding["metadata"]["name"])
    claims = json.loads(base64.urlsafe_b64decode(who.split(".")[1] + "=="))
    wanted = {"verb": "get", "resource": "nodes", "subresource": "pods"}
    review = {"spec": {"user": claims["sub"], "resourceAttributes": wanted}}

    async def taken_back() -> bool:
        body = json.dumps(review).encode()
        answer = await scene.client.session.request("POST", SUBJECT_ACCESS_REVIEWS.path(), body=body)
        return not json.loads(answer)["status"]["allowed"]

    await until(taken_back)
    assert (await scene.ask("/pods", who))[0] == 200
    assert (await scene.ask("/pods", who, target="c2"))[0] == 403


async def test_pods_are_those_of_this_virtual_node(scene: Scene) -> None:
    who = await scene.account(pods=["get"])
    _, text = await scene.ask("/pods", who)
    (pod,) = json.loads(text)["items"]
    assert pod["metadata"]["uid"] == scene.web.proxy["metadata"]["uid"]
    _, text = await scene.ask("/pods", who, target="c2")
    assert json.loads(text)["items"] == []
