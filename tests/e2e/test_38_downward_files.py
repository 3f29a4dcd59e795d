"""Promise 38: files of the downward API show the labels and annotations of the pod, as on a plain cluster."""

import copy
import secrets

import pytest

from agent.api.kinds import PODS
from agent.api.names import ELECT, PREFIX
from tests.e2e.debugging import IMAGE, Kubectl
from tests.e2e.fleet import Fleet, Raw

pytestmark = [pytest.mark.realnodes]

WHOLE = ("labels", "annotations")
KEYED = {"tier": "metadata.labels['example.com/tier']", "note": "metadata.annotations['example.com/note']"}


def pod(name: str) -> Raw:
    paths = {**{each: f"metadata.{each}" for each in WHOLE}, **KEYED}
    items = [{"path": path, "fieldRef": {"fieldPath": field}} for path, field in paths.items()]
    labels = {"app": "files", "example.com/tier": "gold", "example.org/tier": "tin"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels, "annotations": {"example.com/note": 'a "b"\n\té'}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "main",
                    "image": IMAGE,
                    "imagePullPolicy": "Never",
                    "command": ["sleep", "3600"],
                    "volumeMounts": [{"name": "info", "mountPath": "/info"}],
                }
            ],
            "volumes": [{"name": "info", "downwardAPI": {"items": items}}],
        },
    }


async def read(kubectl: Kubectl, name: str) -> dict[str, list[str]]:
    """Return the lines of each file, without those that a kubelet adds of its own."""
    found = {}
    for file in (*WHOLE, *KEYED):
        _, text, _ = await kubectl.run("exec", name, "--", "cat", f"/info/{file}")
        found[file] = [line for line in text.splitlines() if not line.startswith("kubernetes.io/config.")]
    return found


async def test_files_of_all_labels_and_annotations_are_those_of_a_plain_pod(fleet: Fleet) -> None:
    async with fleet.namespace(("us",)) as namespace:
        kubectl = Kubectl(fleet.sandbox.plan.programs["kubectl"], fleet.sandbox["cd"].kubeconfig, namespace)
        elected = copy.deepcopy(pod("elected"))
        elected["metadata"]["annotations"][PREFIX + ELECT] = ""
        for each in (pod("plain"), elected):
            await fleet.source.create(PODS, each, namespace)

        async def alike() -> bool:
            plain, ours = await read(kubectl, "plain"), await read(kubectl, "elected")
            return bool(plain["labels"]) and plain == ours

        await fleet.until("the files are alike", alike, about=namespace, seconds=120)
        word = secrets.token_hex(4)
        patch = {"metadata": {"labels": {"example.com/late": word}, "annotations": {"example.com/note": None}}}
        for name in ("plain", "elected"):
            await fleet.source.patch(PODS, name, patch, namespace)

        async def changed() -> bool:
            plain = await read(kubectl, "plain")
            return f'example.com/late="{word}"' in plain["labels"] and await alike()

        await fleet.until("the files follow", changed, about=namespace, seconds=180)
