"""Promise 2: a delegate equals the pod of its user except as the wire contract says, including unknown fields."""

import json
from typing import Any

import pytest

from agent.api.kinds import PODS
from tests.e2e import manifests
from tests.e2e.fleet import Fleet

Raw = dict[str, Any]
P = "multicluster.admiralty.io/"
TOKENS = "/var/run/secrets/kubernetes.io/serviceaccount"

RESOURCES = {
    "requests": {"cpu": "10m", "memory": "8Mi", "ephemeral-storage": "1Mi"},
    "limits": {"cpu": "20m", "memory": "16Mi", "ephemeral-storage": "2Mi"},
}


def rich_spec() -> Raw:
    """Return a pod that uses many fields of Kubernetes 1.36."""
    probe = {"httpGet": {"path": "/healthz", "port": "web", "scheme": "HTTPS"}, "periodSeconds": 7}
    main = {
        "name": "main",
        "image": "busybox",
        "command": ["sh", "-c"],
        "args": ["sleep 1; echo $(POD) $$"],
        "ports": [{"name": "web", "containerPort": 8443}],
        "env": [
            {"name": "PLAIN", "value": "x"},
            {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        ],
        "envFrom": [{"prefix": "C_", "configMapRef": {"name": "settings", "optional": True}}],
        "resources": RESOURCES,
        "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
        # Newer than the agent's code, which does not mention these rules.
        "restartPolicy": "Never",
        "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}],
        "livenessProbe": probe,
        "readinessProbe": {"exec": {"command": ["true"]}},
        "startupProbe": {"tcpSocket": {"port": 8443}, "failureThreshold": 30},
        "lifecycle": {"preStop": {"sleep": {"seconds": 3}}},
        "securityContext": {"runAsUser": 1000, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}, {"name": "all", "mountPath": "/all"}],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    return {
        "containers": [main],
        "initContainers": [
            {"name": "first", "image": "busybox", "resources": RESOURCES},
            {"name": "sidecar", "image": "busybox", "restartPolicy": "Always", "resources": RESOURCES},
        ],
        "volumes": [
            {"name": "scratch", "emptyDir": {"sizeLimit": "1Mi"}},
            {"name": "all", "projected": {"sources": [{"configMap": {"name": "settings", "optional": True}}]}},
        ],
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 7,
                        "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]},
                    }
                ]
            }
        },
        "nodeSelector": {manifests.REGION: "eu"},
        "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
        "hostAliases": [{"ip": "192.0.2.1", "hostnames": ["db"]}],
        "dnsConfig": {"options": [{"name": "ndots", "value": "2"}]},
        "securityContext": {"fsGroup": 2000, "supplementalGroupsPolicy": "Merge"},
        "shareProcessNamespace": True,
        "terminationGracePeriodSeconds": 77,
        "activeDeadlineSeconds": 3600,
        "enableServiceLinks": False,
    }


async def plain_spec(fleet: Fleet, pod: Raw) -> Raw:
    """Return the spec that the target's API server would store if the user created the pod in the target."""
    body = json.dumps(pod).encode()
    path = PODS.path("default")
    answer = await fleet.clients["eu"].session.request("POST", path, params={"dryRun": "All"}, body=body)
    return dict(json.loads(answer)["spec"])


def without_token(spec: Raw) -> Raw:
    """Remove the service account token volume from a spec: each cluster's admission gives it another random
    name."""
    tokens = {
        mount["name"]
        for container in spec["containers"]
        for mount in container.get("volumeMounts") or ()
        if mount["mountPath"] == TOKENS
    }
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        container["volumeMounts"] = [m for m in container.get("volumeMounts") or () if m["name"] not in tokens]
    spec["volumes"] = [volume for volume in spec.get("volumes") or () if volume["name"] not in tokens]
    return spec


async def test_a_rich_spec_arrives_as_it_was_written(fleet: Fleet, namespace: str) -> None:
    pod = manifests.pod("rich", annotations={"team": "x", P + "note": "ours"})
    pod["spec"] = rich_spec()
    pod["metadata"]["labels"] |= {"example.com/tier": "web"}
    await fleet.source.create(PODS, pod, namespace)
    (proxy,) = await fleet.running(namespace, "rich", 1)
    ((cluster, delegate),) = (await fleet.delegates(namespace)).values()
    assert cluster == "eu"
    wanted = without_token(await plain_spec(fleet, pod))
    assert wanted["containers"][0]["restartPolicyRules"], "the API server does not know the field: choose another one"
    spec = without_token(delegate["spec"])
    # Wire contract, section 4.1: the target selects the node, and fields with the pod's name refer to the proxy
    # pod.
    assert spec.pop("nodeName").startswith("eu-")
    assert spec.pop("hostname") == "rich"
    wanted["containers"][0]["env"][1] = {"name": "POD", "value": "rich"}
    assert spec == wanted
    metadata = delegate["metadata"]
    assert {key: metadata["labels"][key] for key in (P + "app", P + "tier", P + "parent-uid")} == {
        P + "app": "rich",
        P + "tier": "web",
        P + "parent-uid": proxy["metadata"]["uid"],
    }
    assert {key: value for key, value in metadata["annotations"].items() if key != "team"} == {
        P + "parent-name": "rich",
        P + "parent-namespace": namespace,
    }
    assert metadata["annotations"]["team"] == "x"
    assert [owner["kind"] for owner in metadata["ownerReferences"]] == ["PodChaperon"]


async def test_volumes_of_the_users_own_stay_where_a_token_would_be(fleet: Fleet, namespace: str) -> None:
    """ServiceAccount admission adds a token only if the container mounts nothing at its path, in any cluster."""
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    ]
    volumes = [{"name": "by-hand", "projected": {"sources": sources}}, {"name": "hidden", "emptyDir": {}}]
    pod = manifests.pod("hardened")
    pod["spec"]["volumes"] = volumes
    pod["spec"]["containers"] = [
        {"name": each["name"], "image": "busybox", "volumeMounts": [{"name": each["name"], "mountPath": TOKENS}]}
        for each in volumes
    ]
    plain = await plain_spec(fleet, pod)
    await fleet.source.create(PODS, pod, namespace)
    await fleet.running(namespace, "hardened", 1)
    ((_, delegate),) = (await fleet.delegates(namespace)).values()
    for field in ("containers", "volumes"):
        assert delegate["spec"][field] == plain[field], field


@pytest.mark.full("A variant of the test of a rich spec.")
async def test_a_service_account_of_the_target_gives_the_token(fleet: Fleet, namespace: str) -> None:
    await fleet.source.create(PODS, manifests.pod("a"), namespace)
    (proxy,) = await fleet.running(namespace, "a", 1)
    ((_, delegate),) = (await fleet.delegates(namespace)).values()
    (mine,), (theirs,) = (
        [m["name"] for m in p["spec"]["containers"][0]["volumeMounts"] if m["mountPath"] == TOKENS]
        for p in (proxy, delegate)
    )
    assert mine != theirs
    assert [volume["name"] for volume in delegate["spec"]["volumes"]] == [theirs]
