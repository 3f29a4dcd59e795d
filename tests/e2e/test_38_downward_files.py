"""Promise 38: files of the downward API show the labels and annotations of the pod, as on a plain cluster."""

import copy
import secrets

import pytest

from agent.api.conditions import is_true
from agent.api.kinds import PODS
from agent.api.names import ELECT, PREFIX, is_ours
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
    """Return the lines of each file, except annotations of the kubelet."""
    found = {}
    for file in (*WHOLE, *KEYED):
        code, text, errors = await kubectl.run("exec", name, "--", "cat", f"/info/{file}")
        assert code == 0, errors
        found[file] = [line for line in text.splitlines() if not line.startswith("kubernetes.io/config.")]
    return found


def without_place(files: dict[str, list[str]]) -> dict[str, list[str]]:
    """Drop topology labels, since the pods run in two clusters."""
    return {file: [line for line in lines if not line.startswith("topology.")] for file, lines in files.items()}


async def test_files_of_all_labels_and_annotations_are_those_of_a_plain_pod(fleet: Fleet) -> None:
    async with fleet.namespace(("us",)) as namespace:
        kubectl = Kubectl(fleet.sandbox.plan.programs["kubectl"], fleet.sandbox["cd"].kubeconfig, namespace)
        elected = copy.deepcopy(pod("elected"))
        elected["metadata"]["annotations"][PREFIX + ELECT] = ""
        for each in (pod("plain"), elected):
            await fleet.source.create(PODS, each, namespace)

        async def run() -> bool:
            found = await fleet.source.list(PODS, namespace)
            return all(is_true((each["status"] or {}).get("conditions"), "Ready") for each in found)

        await fleet.until("both are ready", run, about=namespace, seconds=120)
        plain, ours = await read(kubectl, "plain"), await read(kubectl, "elected")
        assert without_place(ours) == without_place(plain)
        word = secrets.token_hex(4)
        patch = {"metadata": {"labels": {"example.com/late": word}, "annotations": {"example.com/note": None}}}
        for name in ("plain", "elected"):
            await fleet.source.patch(PODS, name, patch, namespace)
        seen: list[dict[str, list[str]]] = []

        async def changed() -> bool:
            seen[:] = [await read(kubectl, "plain"), await read(kubectl, "elected")]
            plain, ours = map(without_place, seen)
            return f'example.com/late="{word}"' in plain["labels"] and plain == ours

        await fleet.until("the files follow", changed, about=namespace, seconds=180)
        proxy = await fleet.source.get(PODS, "elected", namespace)
        own = {key: value for key, value in proxy["metadata"]["labels"].items() if not is_ours(key)}
        assert seen[1]["labels"] == [f'{key}="{value}"' for key, value in sorted(own.items())]
