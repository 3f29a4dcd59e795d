"""Warnings about the pods of an applied Deployment or other workload. No I/O.

The template's pod is checked as if it were created. Nothing is refused: errors of the pods become a single warning for
each applied object.
"""

from collections.abc import Sequence
from typing import Any

from webhook.review import Answer, Malformed, Outcome, Request, allowed

Raw = dict[str, Any]

KINDS = {
    "apps": ("deployments", "statefulsets", "replicasets"),
    "batch": ("jobs", "cronjobs"),
}
"""Resources by API group."""


def first_pod(request: Request) -> Raw:
    """Return the request by which a controller would create the first pod of the object. Raises Malformed."""
    obj = request.get("object")
    spec = obj.get("spec") if isinstance(obj, dict) else None
    if not isinstance(obj, dict) or not isinstance(spec, dict):
        raise Malformed("request.object has no spec: the webhook's rules may name workloads only")
    made_by = spec.get("jobTemplate")
    template = (made_by["spec"] if isinstance(made_by, dict) else spec).get("template")
    if not isinstance(template, dict) or not isinstance(template.get("spec"), dict):
        raise Malformed("request.object has no template of pods: the webhook's rules may name workloads only")
    metadata: Raw = obj.get("metadata") or {}
    namespace = metadata.get("namespace") or request.get("namespace") or ""
    owner = {"apiVersion": obj.get("apiVersion", ""), "kind": obj.get("kind", ""), "controller": True}
    owner |= {"name": str(metadata.get("name") or metadata.get("generateName") or ""), "uid": ""}
    pod = {
        **template,
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **(template.get("metadata") or {}),
            "name": f"{owner['name']}-0",
            "namespace": namespace,
            "ownerReferences": [owner],
        },
    }
    return {**request, "operation": "CREATE", "subResource": "", "object": pod}


def told(request: Request, of_pod: Answer, of_itself: Sequence[str] = ()) -> Answer:
    """Return the answer about the object, with its own errors and those of its pod as one warning."""
    if of_pod.outcome is Outcome.REFUSED:
        of_pods = [f"its pods will be refused: {of_pod.explanation}"]
    else:
        of_pods = of_pod.review["response"].get("warnings") or []
    warnings = [*of_itself, *of_pods]
    return allowed(request, Outcome.VALID, ["; ".join(warnings)] if warnings else ())
