"""AdmissionReviews and pods for the tests of the webhook."""

import base64
import copy
from typing import Any

import msgspec

ELECT = "multicluster.admiralty.io/elect"


def pod(name: str = "web", *, elected: bool = True, **annotations: str) -> dict[str, Any]:
    """Return a small pod; annotations are given without prefix, `_` for `-`."""
    keys = {f"multicluster.admiralty.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    if elected:
        keys[ELECT] = ""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": keys},
        "spec": {"containers": [{"name": "main", "image": "nginx"}]},
    }


def review(obj: Any, **request: Any) -> dict[str, Any]:
    """Return an AdmissionReview as API servers send it."""
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "namespace": "default",
            "operation": "CREATE",
            "object": obj,
            "dryRun": False,
            **request,
        },
    }


def patch_of(answered: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the JSON patch in an answer."""
    response = answered["response"]
    assert response["patchType"] == "JSONPatch"
    patch: list[dict[str, Any]] = msgspec.json.decode(base64.b64decode(response["patch"]))
    return patch


def patched(obj: dict[str, Any], answered: dict[str, Any]) -> dict[str, Any]:
    """Return the object after the patch in an answer: RFC 6902 add, replace and remove."""
    result = copy.deepcopy(obj)
    for operation in patch_of(answered):
        *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        parent: Any = result
        for part in parents:
            parent = parent[int(part)] if isinstance(parent, list) else parent[part]
        key = int(last) if isinstance(parent, list) else last
        match operation["op"]:
            case "remove":
                del parent[key]
            case "add" if isinstance(parent, list):
                parent.insert(key, operation["value"])
            case _:
                parent[key] = operation["value"]
    return result
