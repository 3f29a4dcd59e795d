"""Logs and upgraded connections through a real API server: they reach the delegate, or the refusal has a reason."""

import contextlib
import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.api.kinds import (
    CHAPERONS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CLUSTER_SUMMARIES,
    PODS,
    SERVICE_ACCOUNTS,
)
from agent.api.names import ANNOTATION_AGENT_VERSION, SUMMARY_NAME
from agent.clusters.deps import Deps
from agent.kube.errors import BadRequest, Forbidden, NotFound, ServerError
from agent.kube.streams import ask, connect
from hack.lab.sandbox import Cluster
from hack.lab.sandbox.objects import token
from tests.controllers.target_links import kubeconfig, rewrite
from tests.kubelet.places import make_delegate, refusal, upgraded
from tests.kubelet.scenes import Scene
from tests.peers.contract import SOURCE_RULES, VIEWER_RULES
from tests.waiting import until

pytestmark = [pytest.mark.cluster]

Raw = dict[str, Any]


async def test_logs_come_from_the_delegate_with_every_option(scene: Scene) -> None:
    scene.kubelet.log = b"one\ntwo\n"
    options = {
        "follow": "true",
        "previous": "true",
        "timestamps": "true",
        "tailLines": "0",
        "limitBytes": "1000",
        "sinceSeconds": "5",
    }
    assert await scene.logs(**options) == b"one\ntwo\n"
    path, query = scene.kubelet.asked[-1]
    name = scene.web.delegate["metadata"]["name"]
    assert path == f"/containerLogs/{scene.namespace}/{name}/main"
    assert options.items() <= dict(query).items()


async def test_a_large_log_arrives_whole(scene: Scene) -> None:
    scene.kubelet.log = secrets.token_bytes(1 << 20) * 16
    assert await scene.logs() == scene.kubelet.log


@pytest.mark.parametrize("protocol", ["SPDY/3.1", "websocket"])
async def test_exec_reaches_the_delegate_and_bytes_go_both_ways(scene: Scene, protocol: str) -> None:
    query = [("container", "side"), ("command", "sh"), ("command", "a b&c"), ("stdin", "true"), ("stdout", "true")]
    answer = await upgraded(scene.client, scene.path("exec"), query, protocol)
    assert answer.status == 101
    data = secrets.token_bytes(100_000)
    for _ in range(10):
        answer.channel.send(data)
    assert await answer.channel.read_until(data[-50:], len(data)) == data
    path, asked = scene.kubelet.asked[-1]
    assert path == f"/exec/{scene.namespace}/{scene.web.delegate['metadata']['name']}/side"
    assert [value for key, value in asked if key == "command"] == ["sh", "a b&c"]
    assert {("input", "1"), ("output", "1")} <= set(asked)
    answer.channel.close()
    await until(lambda: scene.kubelet.open == 0)


async def test_a_client_that_vanishes_leaves_nothing_open(scene: Scene) -> None:
    answers = []
    for sub in ("exec", "attach", "portforward"):
        query = [("container", "main"), ("command", "sh"), ("stdin", "true"), ("stdout", "true")]
        answers.append(await upgraded(scene.client, scene.path(sub), query if sub != "portforward" else []))
        assert answers[-1].status == 101
    scene.kubelet.endless = True
    channel, options = await connect(scene.client.session), (("container", "main"), ("follow", "true"))
    answers.append(
        await ask(scene.client.session, channel, "GET", scene.path("log"), options, (), resource="logs", timeout=20)
    )
    assert answers[-1].status == 200
    await until(lambda: scene.kubelet.open == 4)
    for answer in answers:
        answer.channel.abort()
    await until(lambda: scene.kubelet.open == 0)


async def test_no_request_reaches_a_pod_that_this_virtual_node_does_not_run(scene: Scene) -> None:
    who = await scene.account(proxy=["get", "create"])
    namespace, web = scene.namespace, scene.web
    for target, pod in (
        ("c2", "web"),
        ("c1", web.delegate["metadata"]["name"]),
        ("c1", "nobody"),
    ):
        status, text = await scene.ask(f"/containerLogs/{namespace}/{pod}/main", who, target=target)
        assert (status, "does not run on node" in text) == (404, True)
        path = f"/exec/{namespace}/{pod}/main?command=sh&output=1"
        assert (await scene.ask(path, who, target=target, method="POST"))[0] == 404
    other = f"/exec/{namespace}/web/another-uid/main?command=sh&output=1"
    assert (await scene.ask(other, who, method="POST"))[0] == 404
    # A foreign pod in the target with the delegate's name.
    await scene.client.delete(PODS, web.delegate["metadata"]["name"], namespace, grace=0)
    await make_delegate(scene.client, web.chaperon, scene.kubelet, foreign=True)
    with pytest.raises(BadRequest, match="is not the delegate of this pod"):
        await scene.logs()
    assert scene.kubelet.asked == []


async def test_what_keeps_a_request_from_its_pod_is_told(scene: Scene) -> None:
    who = await scene.account(proxy=["get"])
    status, text = await scene.ask(f"/containerLogs/{scene.namespace}/web/nope", who)
    assert (status, text) == (400, 'container "nope" not found in pod web (it has: main, side)')
    name = scene.web.delegate["metadata"]["name"]
    await scene.client.delete(PODS, name, scene.namespace, grace=0)
    with pytest.raises(BadRequest, match=f"the delegate {scene.namespace}/{name} does not exist in target c1 yet"):
        await scene.logs()
    await scene.client.delete(CHAPERONS, scene.web.chaperon["metadata"]["name"], scene.namespace)
    await until(lambda: not scene.deps.chaperons.of((scene.namespace, "web")))
    with pytest.raises(BadRequest, match="pod web has no delegate in target c1"):
        await scene.logs()


async def test_of_a_pod_that_was_not_elected_it_is_told_that_nothing_runs(scene: Scene) -> None:
    spec = {"nodeName": scene.node, "containers": [{"name": "main", "image": "busybox"}]}
    await scene.client.create(PODS, {"metadata": {"name": "log"}, "spec": spec}, scene.namespace)
    with pytest.raises(BadRequest, match=f"no container of pod log runs: node {scene.node} stands for another cluster"):
        await scene.client.session.request("GET", PODS.path(scene.namespace, "log", "log"))


async def test_a_target_that_does_not_answer_is_named(scene: Scene, cluster: Cluster) -> None:
    closed = kubeconfig(cluster, server="https://127.0.0.1:1")
    await rewrite(scene.client, scene.namespace, "c1", closed)
    await until(lambda: unready(scene.deps, (scene.namespace, "c1")))
    with pytest.raises(ServerError, match="target c1 does not answer"):
        await scene.logs()
    assert "target c1 does not answer" in await refusal(scene.client, scene.path("exec"))


async def unready(deps: Deps, key: tuple[str, str]) -> bool:
    target = deps.targets.get(key)
    return target is not None and not target.ready


async def test_a_verb_that_the_target_does_not_grant_is_named(scene: Scene, cluster: Cluster) -> None:
    read = {"apiGroups": ["multicluster.admiralty.io"], "resources": ["*"], "verbs": ["get", "list", "watch"]}
    pods = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    async with summary(scene, "0.1.0"):
        await restricted(scene, cluster, [read, pods])
        with pytest.raises(Forbidden, match=r'may not "get" pods/log in namespace .* of target c1: grant it there'):
            await scene.logs()
        assert 'may not "create" pods/exec' in await refusal(scene.client, scene.path("exec"))


async def test_logs_and_exec_need_no_more_than_admiralty_grants_and_what_does_names_its_role(
    scene: Scene, cluster: Cluster
) -> None:
    async with summary(scene, "0.1.0"):
        await restricted(scene, cluster, [*SOURCE_RULES, *VIEWER_RULES])
        assert await scene.logs() == scene.kubelet.log
        query = [("container", "side"), ("command", "sh"), ("stdin", "true"), ("stdout", "true")]
        answer = await upgraded(scene.client, scene.path("exec"), query)
        assert answer.status == 101
        answer.channel.close()
        assert "ClusterRole multicluster-scheduler-source)" in await refusal(scene.client, scene.path("attach"))
    async with summary(scene, None):
        await until(lambda: _says(scene, "attach", "ClusterRole admiralty-source, or what Admiralty's release"))


async def test_where_pods_may_not_be_listed_either_the_role_is_named(scene: Scene, cluster: Cluster) -> None:
    without = [rule for rule in SOURCE_RULES if rule["resources"] != ["pods"]]
    async with summary(scene, "0.1.0"):
        await restricted(scene, cluster, [*without, *VIEWER_RULES])
        with pytest.raises(Forbidden, match=r'may not "list" pods in namespace .* of target c1: grant it there'):
            await scene.logs()


async def _says(scene: Scene, sub: str, words: str) -> bool:
    return words in await refusal(scene.client, scene.path(sub))


@contextlib.asynccontextmanager
async def summary(scene: Scene, version: str | None) -> AsyncIterator[None]:
    """Publish the target's summary: with a version for Flotilla's agent, without one for Admiralty's."""
    annotations = {ANNOTATION_AGENT_VERSION: version} if version else {}
    head = {"apiVersion": CLUSTER_SUMMARIES.api_version, "kind": CLUSTER_SUMMARIES.name}
    with contextlib.suppress(NotFound):
        await scene.client.delete(CLUSTER_SUMMARIES, SUMMARY_NAME)
    await scene.client.create(
        CLUSTER_SUMMARIES, {**head, "metadata": {"name": SUMMARY_NAME, "annotations": annotations}}
    )
    try:
        yield
    finally:
        await scene.client.delete(CLUSTER_SUMMARIES, SUMMARY_NAME)


async def restricted(scene: Scene, cluster: Cluster, rules: list[Raw]) -> None:
    """Connect to the target with exactly these permissions."""
    name = f"{scene.namespace}-source"
    await scene.client.create(SERVICE_ACCOUNTS, {"metadata": {"name": name, "namespace": scene.namespace}})
    await scene.client.create(CLUSTER_ROLES, {"metadata": {"name": name}, "rules": rules})
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": scene.namespace}],
    }
    await scene.client.create(CLUSTER_ROLE_BINDINGS, binding)
    user = {"token": await token(scene.client, scene.namespace, name)}
    await rewrite(scene.client, scene.namespace, "c1", kubeconfig(cluster, user=user))
    await until(lambda: reconnected(scene.deps, (scene.namespace, "c1")))


async def reconnected(deps: Deps, key: tuple[str, str]) -> bool:
    target = deps.targets.get(key)
    bearer = await target.cluster.client.session.connection.auth.header() if target is not None else None
    return bool(target is not None and target.ready and bearer and deps.chaperons.of((key[0], "web")))
