"""What the demo creates, and the kinds it reads beside those that the agent knows. Pure."""

from typing import Any

import yaml

from agent.api.kinds import Kind
from agent.api.names import ELECT, PREFIX
from agent.sandbox.manifests import NAMESPACE

Manifest = dict[str, Any]

DEPLOYMENTS = Kind("apps", "v1", "deployments", "Deployment")
REPLICA_SETS = Kind("apps", "v1", "replicasets", "ReplicaSet")
JOBS = Kind("batch", "v1", "jobs", "Job")

DEPLOYMENT = "web"
JOB = "count"
REGION = "topology.kubernetes.io/region"

_IMAGE = "busybox:1.37"
"""Never pulled: the sandbox's nodes only play at running containers."""


def deployment(replicas: int, name: str = DEPLOYMENT) -> Manifest:
    """A Deployment like any other, but for one annotation."""
    template = _template(name, {"containers": [_container(["sleep", "infinity"])]})
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return _object(DEPLOYMENTS, name, spec)


def job(completions: int, parallelism: int) -> Manifest:
    """A Job whose pods end by themselves."""
    pod = {"restartPolicy": "Never", "containers": [_container(["true"])]}
    spec = {"completions": completions, "parallelism": parallelism, "template": _template(JOB, pod)}
    return _object(JOBS, JOB, spec)


def scaled(replicas: int) -> Manifest:
    """Merge patch that changes the number of replicas."""
    return {"spec": {"replicas": replicas}}


def pinned(region: str) -> Manifest:
    """Merge patch that asks for nodes of one region: to the Deployment a new version, rolled out as such."""
    return {"spec": {"template": {"spec": {"nodeSelector": {REGION: region}}}}}


def sample() -> str:
    """A manifest for whoever goes on by hand."""
    text: str = yaml.safe_dump(deployment(3, "mine"), sort_keys=False)
    return text


def _template(app: str, spec: Manifest) -> Manifest:
    return {"metadata": {"labels": {"app": app}, "annotations": {PREFIX + ELECT: ""}}, "spec": spec}


def _container(command: list[str]) -> Manifest:
    return {"name": "main", "image": _IMAGE, "command": command}


def _object(kind: Kind, name: str, spec: Manifest) -> Manifest:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata, "spec": spec}
