"""Promise 29: pods with projected tokens of their own and resized pods behave in a target as plain pods do."""

import json

import pytest

from agent.api import names
from agent.api.kinds import PODS
from tests.e2e import manifests
from tests.e2e.debugging import IMAGE
from tests.e2e.fleet import Fleet, Raw

pytestmark = [pytest.mark.realnodes]

BOTH = (("plain", None), ("federated", manifests.ELECT))


def hardened(name: str, elect: str | None) -> Raw:
    """Return a pod without automatic token mount, with a projected token and resource requests."""
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]
    mount = {"name": "api-access", "mountPath": names.SERVICE_ACCOUNT_MOUNT, "readOnly": True}
    container = {"name": "main", "image": IMAGE, "imagePullPolicy": "Never", "command": ["sleep", "3600"]}
    return manifests.pod(
        name,
        elect=elect,
        automountServiceAccountToken=False,
        terminationGracePeriodSeconds=0,
        resources={"requests": {"cpu": "50m", "memory": "40Mi"}, "limits": {"cpu": "200m", "memory": "80Mi"}},
        containers=[container | {"volumeMounts": [mount]}],
        volumes=[{"name": "api-access", "projected": {"sources": sources}}],
    )


async def test_a_token_by_hand_is_there_and_the_whole_pod_is_resized_in_place(fleet: Fleet) -> None:
    wanted = {"requests": {"cpu": "60m", "memory": "40Mi"}, "limits": {"cpu": "300m", "memory": "80Mi"}}
    patch = json.dumps({"spec": {"resources": wanted}})
    files, told = {}, {}
    async with fleet.namespace(("us",)) as namespace:
        for name, elect in BOTH:
            await fleet.source.create(PODS, hardened(name, elect), namespace)
        for name, _ in BOTH:
            (pod,) = await fleet.running(namespace, name, 1, seconds=120)
            where = f"--namespace={namespace}"
            listed = await fleet.kubectl("cd", "exec", where, name, "--", "ls", names.SERVICE_ACCOUNT_MOUNT)
            files[name] = listed.split()
            uid = pod["metadata"]["uid"]
            await fleet.kubectl("cd", "patch", "pod", name, where, "--subresource=resize", f"--patch={patch}")

            async def resized(name: str = name) -> Raw:
                found = await fleet.source.get(PODS, name, namespace)
                status: Raw = found["status"]
                return status if (status.get("resources") or {}).get("limits") == wanted["limits"] else {}

            status = await fleet.until(f"pod {name} is resized", resized, about=namespace, seconds=60)
            told[name] = (status["resources"], status["containerStatuses"][0]["restartCount"])
            assert (await fleet.source.get(PODS, name, namespace))["metadata"]["uid"] == uid
        assert files["federated"] == files["plain"] == ["ca.crt", "namespace", "token"]
        assert told["federated"] == told["plain"]
        ((_, delegate),) = (await fleet.delegates(namespace)).values()
        assert delegate["spec"]["resources"] == wanted
