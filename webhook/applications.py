"""What whoever applies one of P2CODE's applications is told at once. No I/O; nothing is refused."""

from agent.model.p2code.check import draft
from webhook.review import Answer, Malformed, Outcome, Request, allowed


def of_application(request: Request) -> Answer:
    """The first thing that is wrong with its annotations, and with its manifests. Raises Malformed."""
    obj = request.get("object")
    if not isinstance(obj, dict):
        raise Malformed("request.object is missing")
    spec, metadata = obj.get("spec"), obj.get("metadata")
    name = str((metadata if isinstance(metadata, dict) else {}).get("name") or "")
    found = draft(spec if isinstance(spec, dict) else {}, name, "global")
    wrong = [each.message for each in (found.annotated, found.manifested) if each is not None]
    return allowed(request, Outcome.VALID, wrong)
