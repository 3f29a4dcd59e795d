"""A real API server accepts the model's objects and returns them without a difference."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import CHAPERONS, CLUSTER_SUMMARIES, CONFIGMAPS, NODES, PODS
from agent.kube.client import Client
from agent.kube.errors import Invalid
from agent.model.delegatepod import chaperon, delegate
from agent.model.diff import json_patch, merge_patch
from agent.model.proxypod import proxy_pod
from agent.model.status import proxy_status
from agent.model.summary import summarise
from agent.model.virtualnode import amounts, desired_labels, node_status, virtual_node
from tests.model.pods import P

pytestmark = pytest.mark.cluster

TERM = {
    "labelSelector": {
        "matchLabels": {"app": "web"},
        "matchExpressions": [{"key": "tier", "operator": "In", "values": ["a"]}],
    },
    "topologyKey": "topology.kubernetes.io/zone",
}


async def source_pod(client: Client, namespace: str) -> dict[str, Any]:
    """Return a pod as admission sends it to a webhook: create it, read it, delete it."""
    variables = {
        "NAME": "metadata.name",
        "UID": "metadata.uid",
        "APP": "metadata.labels['app']",
        "NODE": "spec.nodeName",
    }
    env = [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in variables.items()]
    items = [
        {"path": path.replace("'", ""), "fieldRef": {"fieldPath": path}}
        for path in ("metadata.name", "metadata.uid", "metadata.labels['app']", "metadata.labels")
    ]
    body: dict[str, Any] = {
        "metadata": {
            "name": "web-0",
            "labels": {"app": "web", "x.io/revision": "a"},
            "annotations": {P + "elect": "", "team": "x"},
            "finalizers": ["example.com/hold"],
        },
        "spec": {
            "schedulerName": "nobody",
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "busybox", "env": env}],
            "initContainers": [{"name": "init", "image": "busybox"}],
            "volumes": [{"name": "info", "downwardAPI": {"items": items}}],
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}},
            "topologySpreadConstraints": [
                {**TERM, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": ["x.io/revision"]}
            ],
        },
    }
    pod = await client.create(PODS, body, namespace)
    await client.patch(PODS, "web-0", {"metadata": {"finalizers": None}}, namespace)
    await client.delete(PODS, "web-0", namespace, grace=0)
    # The API server resolves matchLabelKeys only after webhooks, when it stores the pod.
    pod["spec"] |= {field: body["spec"][field] for field in ("affinity", "topologySpreadConstraints")}
    for field in ("uid", "resourceVersion", "creationTimestamp", "generation"):
        pod["metadata"].pop(field, None)
    return pod


async def test_a_pod_goes_all_the_way_to_its_delegate(client: Client, namespace: str) -> None:
    source = await source_pod(client, namespace)
    proxy = await client.create(PODS, proxy_pod(source, [names.finalizer(namespace, "c2")]), namespace)
    assert proxy["metadata"]["finalizers"] == ["example.com/hold", names.finalizer(namespace, "c2")]
    assert {item["key"] for item in proxy["spec"]["tolerations"] if item.get("tolerationSeconds")} == set()

    made = chaperon(proxy, cluster_name="c1", cluster_uid="CU")
    parent = await client.create(CHAPERONS, made, namespace)
    assert parent["spec"] == made["spec"]

    wanted = delegate(parent)
    child = await client.create(PODS, wanted, namespace)
    assert child["metadata"]["labels"] == wanted["metadata"]["labels"]
    assert child["spec"]["hostname"] == "web-0"
    assert child["spec"]["containers"][0]["env"][:3] == [
        {"name": "NAME", "value": "web-0"},
        {"name": "UID", "value": proxy["metadata"]["uid"]},
        {"name": "APP", "value": "web"},
    ]
    (spread,) = child["spec"]["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"].items() >= {"multicluster/U_app": "web"}.items()
    (info,) = (each for each in child["spec"]["volumes"] if each["name"] == "info")
    paths = [item["fieldRef"]["fieldPath"] for item in info["downwardAPI"]["items"]]
    assert "metadata.annotations['multicluster/labels-file']" in paths
    await client.delete(CHAPERONS, parent["metadata"]["name"], namespace)
    await release(client, namespace)


async def release(client: Client, namespace: str) -> None:
    await client.patch(PODS, "web-0", {"metadata": {"finalizers": None}}, namespace)
    await client.delete(PODS, "web-0", namespace, grace=0)


async def test_a_status_comes_home_and_then_needs_no_patch(client: Client, namespace: str) -> None:
    source = await source_pod(client, namespace)
    proxy = await client.create(PODS, proxy_pod(source, []), namespace)
    scheduled = {"type": "PodScheduled", "status": "True", "observedGeneration": 1}
    await client.patch(PODS, "web-0", {"status": {"conditions": [scheduled]}}, namespace, sub="status")
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "web-0"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "nowhere"},
    }
    await client.session.request("POST", PODS.path(namespace, "web-0", "binding"), body=json.dumps(binding).encode())
    proxy = await client.get(PODS, "web-0", namespace)
    started = {"running": {"startedAt": "2026-01-01T00:00:01Z"}}
    container = {
        "name": "main",
        "restartCount": 1,
        "ready": True,
        "state": started,
        "lastState": {},
        "image": "b",
        "imageID": "i",
    }
    news = {
        "phase": "Running",
        "qosClass": "Burstable",
        "observedGeneration": 9,
        "nominatedNodeName": "elsewhere",
        "resourceClaimStatuses": [{"name": "claim"}],
        "podIP": "10.1.0.5",
        "podIPs": [{"ip": "10.1.0.5"}],
        "hostIP": "10.0.0.1",
        "hostIPs": [{"ip": "10.0.0.1"}],
        "startTime": "2026-01-01T00:00:00Z",
        "conditions": [
            {"type": "PodScheduled", "status": "True", "observedGeneration": 9},
            {"type": "Ready", "status": "True", "observedGeneration": 9},
        ],
        "containerStatuses": [container, {**container, "name": "mesh"}],
    }
    patch = merge_patch(proxy["status"], proxy_status(proxy, news))
    home = await client.patch(PODS, "web-0", {"status": patch}, namespace, sub="status")
    assert home["status"]["phase"] == "Running"
    assert home["status"]["podIPs"] == [{"ip": "10.1.0.5"}]
    assert home["status"]["qosClass"] == "BestEffort"
    assert [item["name"] for item in home["status"]["containerStatuses"]] == ["main"]
    assert merge_patch(home["status"], proxy_status(home, news)) == {}
    await release(client, namespace)


async def test_a_json_patch_does_on_the_server_what_it_says(client: Client, namespace: str) -> None:
    await client.create(CONFIGMAPS, {"metadata": {"name": "c"}, "data": {"x": "1", "y": "2"}}, namespace)
    now = await client.get(CONFIGMAPS, "c", namespace)
    labelled = {**now["metadata"], "labels": {"a.io/b~": "1"}}
    with pytest.raises(Invalid, match=r"a\.io/b~"):
        await client.patch(CONFIGMAPS, "c", json_patch(now, {**now, "metadata": labelled}), namespace, style="json")
    labelled["labels"] = {"a.io/b": "1"}
    wanted = {**now, "metadata": labelled, "data": {"x": "2", "z": "3"}}
    after = await client.patch(CONFIGMAPS, "c", json_patch(now, wanted), namespace, style="json")
    assert after["data"] == wanted["data"]
    relabelled = {**after, "metadata": {**after["metadata"], "labels": {"a.io/b": "2"}}}
    last = await client.patch(CONFIGMAPS, "c", json_patch(after, relabelled), namespace, style="json")
    assert last["metadata"]["labels"] == {"a.io/b": "2"}


async def test_a_virtual_node_is_accepted_with_labels_and_status(client: Client, namespace: str) -> None:
    summary = summarise(await client.list(NODES))
    assert summary["capacity"]["pods"]
    stored = await client.patch(CLUSTER_SUMMARIES, names.SUMMARY_NAME, summary, style="apply")
    node = virtual_node(namespace, "c2")
    labels = desired_labels(node["metadata"]["labels"], stored["metadata"]["labels"], None, None, None)
    node["metadata"] |= {"labels": labels.labels, "annotations": {names.ANNOTATION_APPLIED_LABELS: labels.applied}}
    created = await client.create(NODES, node)
    status = node_status(
        created["status"],
        resources=amounts(stored, several_huge_pages=False),
        reachable="False",
        reason="Unreachable",
        message="no route",
        address="10.0.0.1",
        port=10251,
        version="v1.36.3",
        now=datetime.now(UTC),
    )
    patch = {"status": merge_patch(created["status"], status)}
    after = await client.patch(NODES, node["metadata"]["name"], patch, sub="status")
    assert after["status"]["allocatable"] == {**stored["allocatable"], "pods": "0"}, "the scheduler binds no pod there"
    assert after["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] == 10251
    assert merge_patch(after["status"], status) == {}
    assert summarise(await client.list(NODES)) == summary
    await client.delete(NODES, node["metadata"]["name"])
    await client.delete(CLUSTER_SUMMARIES, names.SUMMARY_NAME)
