"""Answers about pods that are being created. No I/O, no side effects."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

import msgspec

from agent.api import names
from agent.model.delegatepod import check as check_delegate
from agent.model.diff import json_patch
from agent.model.proxypod import InvalidPod, is_elected, is_proxy, proxy_pod
from agent.model.spread import honoring_taints
from webhook.review import Answer, Fault, Malformed, Outcome, Request, allowed, patched, refused

LONG = 4 * 1024
"""Number of characters that are parsed within a few milliseconds in any format."""
_DOCUMENTS = (
    names.ANNOTATION_MANIFEST,
    names.PREFIX + names.PROXY_CONSTRAINTS,
    names.SHORT_PREFIX + names.PROXY_CONSTRAINTS,
)
_NO = frozenset(("false", "no", "off", "0", "never"))


class Known(Protocol):
    """Cached state of the targets of a namespace."""

    def finalizers(self, namespace: str) -> Sequence[str]:
        """Finalizers of the targets that its pods may go to."""
        ...

    def missing(self, namespace: str, pod: Mapping[str, Any]) -> list[str]:
        """Sentences about what targets do not have that a pod needs."""
        ...


class Noted(msgspec.Struct, frozen=True):
    """Copy of the targets' state for one pod's namespace, for another thread."""

    _finalizers: Sequence[str]
    _missing: list[str]

    @classmethod
    def of(cls, request: Request, known: Known) -> Self:
        """Copy the state that a request needs."""
        pod = request["object"]
        namespace = pod["metadata"].get("namespace") or request.get("namespace") or ""
        return cls(known.finalizers(namespace), known.missing(namespace, pod))

    def finalizers(self, namespace: str) -> Sequence[str]:
        """Finalizers of the targets that the pod may go to."""
        return self._finalizers

    def missing(self, namespace: str, pod: Mapping[str, Any]) -> list[str]:
        """Sentences about what targets do not have that the pod needs."""
        return self._missing


def takes_long(request: Request) -> bool:
    """Return whether an answer may take more than a few milliseconds: YAML from users takes one for each KiB."""
    pod = request.get("object")
    if not isinstance(pod, dict) or pod.get("kind") != "Pod" or not isinstance(pod.get("metadata"), dict):
        return False
    annotations: Mapping[str, str] = pod["metadata"].get("annotations") or {}
    return sum(len(annotations.get(key, "")) for key in _DOCUMENTS) > LONG


def answer(request: Request, known: Known, *, by_default: bool = False, agent: str = "") -> Answer:
    """Turn an elected pod into a proxy pod; allow every other pod unchanged; refuse invalid elected pods.

    :param by_default: the pod's namespace elects its pods
    :param agent: name of the agent's user, which may declare the creator of a pod; empty if unknown
    :raises Malformed: if the object is not a pod
    """
    pod = request.get("object")
    if request.get("operation") != "CREATE" or request.get("subResource"):
        return allowed(request, Outcome.UNTOUCHED)
    if not isinstance(pod, dict) or pod.get("kind") != "Pod" or not isinstance(pod.get("metadata"), dict):
        raise Malformed("request.object is not a pod: the webhook's rules may name pods of the core group only")
    if not is_elected(pod, by_default=by_default):
        return _not_elected(request, pod)
    namespace = pod["metadata"].get("namespace") or request.get("namespace") or ""
    named: dict[str, Any] = {**pod, "metadata": {**pod["metadata"], "namespace": namespace}}
    finalizers = known.finalizers(namespace)
    try:
        proxy = proxy_pod(named, finalizers)
        check_delegate(proxy)
    except InvalidPod as error:
        return refused(request, [Fault(error.field, error.reason)])
    except RecursionError:
        return refused(request, [Fault("metadata.annotations", "what is written in one of them is nested too deeply")])
    creator = (request.get("userInfo") or {}).get("username")
    annotations = proxy["metadata"]["annotations"]
    if not (agent and creator == agent and names.ANNOTATION_CREATED_BY in annotations):
        # Never what the user says of himself.
        annotations.pop(names.ANNOTATION_CREATED_BY, None)
        annotations.update({names.ANNOTATION_CREATED_BY: creator} if creator else {})
    if agent and creator != agent:
        # A backup may carry what the agent has noted on the pod that it was made from.
        for key in names.STATE_OF_REPLACEMENT:
            annotations.pop(key, None)
    return patched(request, json_patch(pod, proxy), _warnings(namespace, pod, known, finalizers))


def staying(request: Request) -> Answer:
    """Have a pod that stays in this cluster spread over the nodes that it tolerates, virtual nodes not among them.

    :raises Malformed: if the object is not a pod
    """
    pod = request.get("object")
    if not isinstance(pod, dict) or pod.get("kind") != "Pod" or not isinstance(pod.get("metadata"), dict):
        raise Malformed("request.object is not a pod: the webhook's rules may name pods of the core group only")
    changed = honoring_taints(pod)
    if changed is pod or is_elected(pod):
        return allowed(request, Outcome.UNTOUCHED)
    return patched(request, json_patch(pod, changed), [])


def _not_elected(request: Request, pod: Mapping[str, Any]) -> Answer:
    if not is_proxy(pod):
        return allowed(request, Outcome.UNTOUCHED)
    reason = (
        f"{names.SCHEDULER_PROXY} is the scheduler of elected pods, and this one opts out, or is a PodChaperon's:"
        f" remove the field, or the annotation {names.SHORT_PREFIX}{names.ELECT}"
    )
    return refused(request, [Fault("spec.schedulerName", reason)])


def _warnings(namespace: str, pod: Mapping[str, Any], known: Known, finalizers: Sequence[str]) -> list[str]:
    meant = _meant_not_to_be(pod["metadata"].get("annotations") or {})
    if not finalizers:
        return [
            *meant,
            f"no Target in namespace {namespace} and no ClusterTarget: the pod stays pending until there is one",
        ]
    return [*meant, *known.missing(namespace, pod)]


def _meant_not_to_be(annotations: Mapping[str, str]) -> list[str]:
    """Only one way of writing it opts out: to Admiralty's annotation any value is as good as another."""
    long, short = names.PREFIX + names.ELECT, names.SHORT_PREFIX + names.ELECT
    if not {annotations.get(key, "").lower() for key in (long, short)} & _NO:
        return []
    if long in annotations:
        remedy = f'to keep it in this cluster, write {short}: "false" instead'
        return [f"annotation {long} elects the pod whatever its value: {remedy}"]
    return [f'annotation {short}: "{annotations[short]}" elects the pod: only "false" keeps it in this cluster']
