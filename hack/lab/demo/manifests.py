"""Objects that the demo creates, and the kinds that it reads in addition to those of the agent. Pure."""

from typing import Any

from agent.api.kinds import Kind
from agent.api.names import ELECT, PREFIX
from hack.lab.sandbox.manifests import NAMESPACE

Manifest = dict[str, Any]

DEPLOYMENTS = Kind("apps", "v1", "deployments", "Deployment")
REPLICA_SETS = Kind("apps", "v1", "replicasets", "ReplicaSet")
JOBS = Kind("batch", "v1", "jobs", "Job")

DEPLOYMENT = "web"
JOB = "count"
REGION = "topology.kubernetes.io/region"

COMMANDS = f"""\
kubectl get targets,nodes
kubectl run hello --image=busybox --annotations={PREFIX}{ELECT}=
flotilla explain pod hello"""
"""Commands to try while the clusters are up."""

_IMAGE = "busybox:1.37"
"""Never pulled: fake nodes run no containers."""


def deployment(replicas: int, name: str = DEPLOYMENT) -> Manifest:
    """Return an ordinary Deployment whose pod template has the annotation for election."""
    template = _template(name, {"containers": [_container(["sleep", "infinity"])]})
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return _object(DEPLOYMENTS, name, spec)


def job(completions: int, parallelism: int) -> Manifest:
    """Return a Job whose pods complete."""
    pod = {"restartPolicy": "Never", "containers": [_container(["true"])]}
    spec = {"completions": completions, "parallelism": parallelism, "template": _template(JOB, pod)}
    return _object(JOBS, JOB, spec)


def scaled(replicas: int) -> Manifest:
    """Return a merge patch that changes the number of replicas."""
    return {"spec": {"replicas": replicas}}


def pinned(region: str) -> Manifest:
    """Return a merge patch of the pod template that selects nodes of one region, which begins a rolling update."""
    return {"spec": {"template": {"spec": {"nodeSelector": {REGION: region}}}}}


def _template(app: str, spec: Manifest) -> Manifest:
    return {"metadata": {"labels": {"app": app}, "annotations": {PREFIX + ELECT: ""}}, "spec": spec}


def _container(command: list[str]) -> Manifest:
    return {"name": "main", "image": _IMAGE, "command": command}


def _object(kind: Kind, name: str, spec: Manifest) -> Manifest:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata, "spec": spec}
