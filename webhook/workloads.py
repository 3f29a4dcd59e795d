"""What whoever applies a Deployment, or anything else that makes pods, is told of these pods. No I/O.

The pod that comes of the template is looked at as if it were created, and nothing is refused: what would be wrong with
the pods is a warning. One for each object that is applied, however much there is to say.
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
    """The request by which a controller would create the first pod of the object. Raises Malformed."""
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
    """The answer about the object: what is wrong with it, and what the answer about its pod says, as a warning."""
    if of_pod.outcome is Outcome.REFUSED:
        of_pods = [f"its pods will be refused: {of_pod.explanation}"]
    else:
        of_pods = of_pod.review["response"].get("warnings") or []
    warnings = [*of_itself, *of_pods]
    return allowed(request, Outcome.VALID, ["; ".join(warnings)] if warnings else ())
