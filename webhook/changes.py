"""What happens to a proxy pod that is being changed. No I/O, no side effects."""

from typing import Any

from agent.api import names
from agent.model.diff import json_patch
from agent.model.proxypod import InvalidPod, is_proxy
from agent.model.reapplied import restored
from webhook.pods import LONG
from webhook.review import Answer, Malformed, Outcome, Request, allowed, patched


def takes_long(request: Request) -> bool:
    """Whether an answer may take more than a few milliseconds: what is in a manifest, or all of it, may be YAML."""
    pod = request.get("oldObject")
    metadata = pod.get("metadata") if isinstance(pod, dict) else None
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return len((annotations or {}).get(names.ANNOTATION_MANIFEST) or "") > LONG


def answer(request: Request) -> Answer:
    """Give a proxy pod whose user applies its manifest again the fields back that are the webhook's.

    A pod whose manifest cannot be read is left to the API server as it comes.

    :raises Malformed: if the objects are not pods
    """
    if request.get("operation") != "UPDATE" or request.get("subResource"):
        return allowed(request, Outcome.UNTOUCHED)
    old, new = _pod(request, "oldObject"), _pod(request, "object")
    if not is_proxy(old):
        return allowed(request, Outcome.UNTOUCHED)
    try:
        after = restored(old, new)
    except (InvalidPod, RecursionError):
        return allowed(request, Outcome.UNTOUCHED)
    patch = json_patch(new, after)
    return patched(request, patch) if patch else allowed(request, Outcome.UNTOUCHED)


def _pod(request: Request, field: str) -> dict[str, Any]:
    pod = request.get(field)
    if isinstance(pod, dict) and pod.get("kind") == "Pod" and isinstance(pod.get("spec"), dict):
        return pod
    raise Malformed(f"request.{field} is not a pod: the webhook's rules may name pods of the core group only")
