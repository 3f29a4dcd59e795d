"""Manifests of the objects that benchmarks create. Pure."""

from typing import Any

from agent.api.kinds import Kind
from agent.api.names import ELECT, PREFIX, SCHEDULING
from hack.lab.sandbox.manifests import Manifest

DEPLOYMENTS = Kind("apps", "v1", "deployments", "Deployment")
REPLICA_SETS = Kind("apps", "v1", "replicasets", "ReplicaSet")

APP = "app"
"""Label of every pod of a benchmark; its value is the Deployment's name."""


def pod_template(app: str, *, elected: bool, mode: str = "", cpu: str = "") -> Manifest:
    """Return a template of a busybox pod. If elected, its mode is `mode`, or the agent's default if that is empty.

    Without `cpu` it requests nothing, so that only the number of pods matters.
    """
    metadata: dict[str, Any] = {"labels": {APP: app}}
    if elected:
        metadata["annotations"] = {PREFIX + ELECT: ""}
    if elected and mode:
        metadata["annotations"][PREFIX + SCHEDULING] = mode
    container: dict[str, Any] = {"name": "main", "image": "busybox", "command": ["sleep", "infinity"]}
    if cpu:
        container["resources"] = {"requests": {"cpu": cpu}}
    return {"metadata": metadata, "spec": {"containers": [container]}}


def deployment(name: str, namespace: str, replicas: int, *, elected: bool, mode: str = "", cpu: str = "") -> Manifest:
    """Return a Deployment of such pods."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {APP: name}},
            "template": pod_template(name, elected=elected, mode=mode, cpu=cpu),
        },
    }


def pod(name: str, namespace: str, *, elected: bool) -> Manifest:
    """Return a single pod of the same kind."""
    template = pod_template(name, elected=elected)
    metadata = template["metadata"] | {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def follower(app: str, number: int, namespace: str, *, own: bool) -> Manifest:
    """Return an elected pod; with `own`, it cannot start without a ConfigMap and a Secret of its name."""
    name = f"{app}-{number}"
    template = pod_template(app, elected=True)
    if own:
        container = template["spec"]["containers"][0]
        container["envFrom"] = [{"configMapRef": {"name": name}}]
        container["volumeMounts"] = [{"name": "own", "mountPath": "/own"}]
        template["spec"]["volumes"] = [{"name": "own", "secret": {"secretName": name}}]
    metadata = template["metadata"] | {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def namespace(name: str, labels: dict[str, str] | None = None) -> Manifest:
    """Return a namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels or {}}}


def moved(manifest: Manifest, namespace: str) -> Manifest:
    """Return the object in another namespace."""
    return manifest | {"metadata": manifest["metadata"] | {"namespace": namespace}}
