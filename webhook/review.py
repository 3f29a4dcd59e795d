"""AdmissionReviews: parses requests and builds answers. No I/O."""

import base64
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"

Request = Mapping[str, Any]


class Malformed(Exception):
    """The request is not an AdmissionReview of an object that this path is for."""


class Outcome(StrEnum):
    """Outcome of a request, as a metric label."""

    MUTATED = "mutated"
    UNTOUCHED = "untouched"
    VALID = "valid"
    REFUSED = "refused"
    MALFORMED = "malformed"
    NOT_READY = "not_ready"
    FAILED = "failed"


class Fault(msgspec.Struct, frozen=True):
    """An error in an object."""

    field: str
    reason: str  #: why, and what to do about it


class Answer(msgspec.Struct, frozen=True):
    """The AdmissionReview to send back, and its outcome."""

    outcome: Outcome
    review: dict[str, Any]
    explanation: str = ""  #: why an object was refused


def read(body: bytes) -> dict[str, Any]:
    """Return the `request` of an AdmissionReview. Raises Malformed with the reason."""
    try:
        review = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Malformed(f"the body is not JSON: {error}") from error
    if not isinstance(review, dict) or review.get("kind") != KIND:
        raise Malformed(f"the body is not an {KIND}")
    if review.get("apiVersion") != API_VERSION:
        raise Malformed(f"apiVersion is {review.get('apiVersion')!r}: list v1 alone in admissionReviewVersions")
    request = review.get("request")
    if not isinstance(request, dict) or not isinstance(request.get("uid"), str) or not request["uid"]:
        raise Malformed("request.uid is missing")
    return request


def object_of(request: Request, kind: str) -> Mapping[str, Any]:
    """Return the created or changed object. Raises Malformed if it is of another kind."""
    obj = request.get("object")
    if isinstance(obj, dict) and obj.get("kind") == kind and request.get("operation") in ("CREATE", "UPDATE"):
        return obj
    raise Malformed(f"request.object is no {kind} that is made or changed: the webhook's rules may name these only")


def old_of(request: Request) -> Mapping[str, Any]:
    """Return the object before an update; empty for a creation."""
    old = request.get("oldObject")
    return old if isinstance(old, dict) else {}


def user_of(request: Request) -> dict[str, Any]:
    """Return the requesting user for a SubjectAccessReview. Trust it only if all requests come from an API server."""
    info = request.get("userInfo")
    who: Mapping[str, Any] = info if isinstance(info, dict) else {}
    return {"user": who.get("username"), **{field: who[field] for field in ("groups", "uid", "extra") if field in who}}


def allowed(request: Request, outcome: Outcome, warnings: Sequence[str] = ()) -> Answer:
    """Allow the object unchanged."""
    return Answer(outcome, _review(request, {"allowed": True, **_warnings(warnings)}))


def patched(request: Request, patch: Sequence[Mapping[str, Any]], warnings: Sequence[str] = ()) -> Answer:
    """Allow the object with changes; the patch may be empty."""
    response: dict[str, Any] = {"allowed": True, **_warnings(warnings)}
    if patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(msgspec.json.encode(patch)).decode()
    return Answer(Outcome.MUTATED, _review(request, response))


def refused(request: Request, faults: Sequence[Fault]) -> Answer:
    """Refuse the object for these faults, at least one."""
    obj = request["object"]
    message = "; ".join(f"{fault.field}: {fault.reason}" for fault in faults)
    metadata = obj.get("metadata") or {}
    status = {
        "status": "Failure",
        "code": 422,
        "reason": "Invalid",
        "message": message,
        "details": {
            "kind": obj.get("kind", ""),
            "name": str(metadata.get("name") or metadata.get("generateName") or ""),
            "causes": [
                {"reason": "FieldValueInvalid", "field": fault.field, "message": fault.reason} for fault in faults
            ],
        },
    }
    return Answer(Outcome.REFUSED, _review(request, {"allowed": False, "status": status}), message)


def forbidden(request: Request, message: str) -> Answer:
    """Refuse a user without the right, or if the right cannot be checked."""
    status = {"status": "Failure", "code": 403, "reason": "Forbidden", "message": message}
    return Answer(Outcome.REFUSED, _review(request, {"allowed": False, "status": status}), message)


def bad_request(request: Request, message: str) -> Answer:
    """Refuse the object with status 400, as webhooks of Open Cluster Management do."""
    status = {"status": "Failure", "code": 400, "reason": "BadRequest", "message": message}
    return Answer(Outcome.REFUSED, _review(request, {"allowed": False, "status": status}), message)


def _warnings(warnings: Sequence[str]) -> dict[str, Any]:
    return {"warnings": list(warnings)} if warnings else {}


def _review(request: Request, response: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": KIND, "response": {"uid": request["uid"], **response}}
