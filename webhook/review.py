"""AdmissionReview in, AdmissionReview out: what happens to a pod that is being created. No I/O, no side effects."""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from agent.model.diff import json_patch
from agent.model.proxypod import InvalidPod, is_elected, proxy_pod

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"

Finalizers = Callable[[str], Sequence[str]]
"""Finalizers of the targets that pods of a namespace may go to."""


class Malformed(Exception):
    """The request is not an AdmissionReview of a pod."""


class Outcome(StrEnum):
    """What became of a request, as metrics call it."""

    MUTATED = "mutated"
    UNTOUCHED = "untouched"
    REFUSED = "refused"
    MALFORMED = "malformed"
    NOT_READY = "not_ready"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Answer:
    """The AdmissionReview to send back, and what it means."""

    outcome: Outcome
    review: dict[str, Any]
    explanation: str = ""  #: why a pod was refused


def read(body: bytes) -> dict[str, Any]:
    """The `request` of an AdmissionReview. Raises Malformed with what is wrong with it."""
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


def answer(request: Mapping[str, Any], finalizers: Finalizers) -> Answer:
    """Turn an elected pod into a proxy pod; allow every other one as it is; refuse what cannot be a proxy pod.

    Raises Malformed when the object is not a pod.
    """
    pod = request.get("object")
    if request.get("operation") != "CREATE" or request.get("subResource"):
        return _allowed(request)
    if not isinstance(pod, dict) or pod.get("kind") != "Pod" or not isinstance(pod.get("metadata"), dict):
        raise Malformed("request.object is not a pod: the webhook's rules may name pods of the core group only")
    if not is_elected(pod):
        return _allowed(request)
    namespace = pod["metadata"].get("namespace") or request.get("namespace") or ""
    named = {**pod, "metadata": {**pod["metadata"], "namespace": namespace}}
    known = finalizers(namespace)
    try:
        proxy = proxy_pod(named, known)
    except InvalidPod as error:
        return _refused(request, pod, error)
    return _patched(request, json_patch(pod, proxy), _warnings(namespace, known))


def _allowed(request: Mapping[str, Any]) -> Answer:
    return Answer(Outcome.UNTOUCHED, _review(request, {"allowed": True}))


def _patched(request: Mapping[str, Any], patch: Sequence[Mapping[str, Any]], warnings: list[str]) -> Answer:
    response: dict[str, Any] = {"allowed": True}
    if patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(msgspec.json.encode(patch)).decode()
    if warnings:
        response["warnings"] = warnings
    return Answer(Outcome.MUTATED, _review(request, response))


def _refused(request: Mapping[str, Any], pod: Mapping[str, Any], error: InvalidPod) -> Answer:
    message = f"{error.field}: {error.reason}"
    cause = {"reason": "FieldValueInvalid", "field": error.field, "message": error.reason}
    status = {
        "status": "Failure",
        "code": 422,
        "reason": "Invalid",
        "message": message,
        "details": {"kind": "Pod", "name": _name(pod), "causes": [cause]},
    }
    return Answer(Outcome.REFUSED, _review(request, {"allowed": False, "status": status}), message)


def _name(pod: Mapping[str, Any]) -> str:
    metadata = pod["metadata"]
    return str(metadata.get("name") or metadata.get("generateName") or "")


def _warnings(namespace: str, known: Sequence[str]) -> list[str]:
    if known:
        return []
    return [f"no Target in namespace {namespace} and no ClusterTarget: the pod stays pending until there is one"]


def _review(request: Mapping[str, Any], response: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": KIND, "response": {"uid": request["uid"], **response}}
