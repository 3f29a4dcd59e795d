"""Immediate warnings for a user who applies a P2CODE application. No I/O; nothing is refused."""

from agent.api import names
from agent.api.names.p2code import DISTRIBUTION, DISTRIBUTIONS, ELECTED
from agent.model.p2code import verdicts
from agent.model.p2code.check import draft
from webhook.review import Answer, Malformed, Outcome, Request, allowed


def of_application(request: Request) -> Answer:
    """Warn of the first error in its annotations and manifests. Raises Malformed.

    Only the agent has the default distribution; without an annotation the application is checked as for `elect`.
    """
    obj = request.get("object")
    if not isinstance(obj, dict):
        raise Malformed("request.object is missing")
    spec, given = obj.get("spec"), obj.get("metadata")
    metadata = given if isinstance(given, dict) else {}
    annotations = metadata.get("annotations")
    distribution = names.annotation(annotations if isinstance(annotations, dict) else {}, DISTRIBUTION) or ELECTED
    found = draft(spec if isinstance(spec, dict) else {}, str(metadata.get("name") or ""), "global", distribution)
    wrong = found.wrong
    if distribution not in DISTRIBUTIONS:
        wrong.insert(0, verdicts.unknown_distribution(distribution).message)
    return allowed(request, Outcome.VALID, wrong)
