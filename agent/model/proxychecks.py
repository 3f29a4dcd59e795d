"""Checks of the annotations and fields of an elected pod. Pure. All raise InvalidPod."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent.api import names
from agent.api.names.nodes import RESOURCE_CLAIMS
from agent.model import claimfilter, moveterms, placementref, targetchoice
from agent.model.annotations import LIMIT
from agent.model.annotations import size as size_of
from agent.model.errors import InvalidPod
from agent.model.pattern import InvalidPattern, LabelPattern

_SWITCHES = (names.FOLLOW_ACCOUNT, names.FOLLOW_ROLES, names.FOLLOW_POLICIES, names.SOURCE_API)
_CLAIMS_IN = ("target",)


def check_size(annotations: Mapping[str, str]) -> None:
    """Check that all annotations, including the manifest, are within the size limit."""
    taken = size_of(annotations)
    if taken > LIMIT:
        raise InvalidPod(
            "metadata.annotations",
            f"with the manifest of the pod they take {taken} bytes, and Kubernetes allows {LIMIT}: "
            "make the pod smaller, for example by moving long annotations to a ConfigMap",
        )


def check_asked(annotations: dict[str, str], metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> None:
    """Check the requests in a pod's annotations and fields."""
    _check_choices(annotations)
    _check_claims(annotations, spec)
    _check_group(annotations, metadata)


def _check_choices(annotations: dict[str, str]) -> None:
    """Check annotations that have a choice of values."""
    _check_regexp(annotations)
    _check_choice(annotations, names.SCHEDULING, names.SCHEDULING_MODES)
    _check_choice(annotations, names.INJECTED, names.INJECTED_CHOICES)
    _check_choice(annotations, RESOURCE_CLAIMS, _CLAIMS_IN)
    _check_choice(annotations, names.PRIORITY_CLASS, names.PRIORITY_CLASS_CHOICES)
    for suffix in _SWITCHES:
        _check_choice(annotations, suffix, ("true", "false"))
    for found in (placementref.flaws, moveterms.flaws, targetchoice.flaws, claimfilter.flaws):
        for field, reason in found(annotations):
            raise InvalidPod(field, reason)


def _check_claims(annotations: Mapping[str, str], spec: Mapping[str, Any]) -> None:
    """Reject ResourceClaims without the annotation for claims in the target: a device belongs to nodes of one
    cluster, so claims are not copied."""
    claims = spec.get("resourceClaims") or ()
    if not claims or names.annotation(annotations, RESOURCE_CLAIMS) is not None:
        return
    template = claims[0].get("resourceClaimTemplateName")
    kind, field = ("ResourceClaimTemplate", "Template") if template else ("ResourceClaim", "")
    raise InvalidPod(
        f"spec.resourceClaims[0].resourceClaim{field}Name",
        f"{kind} {template or claims[0].get('resourceClaimName')} does not follow the pod to its target: create one of"
        f" that name there, and annotate the pod {names.SHORT_PREFIX}{RESOURCE_CLAIMS}: target",
    )


def _check_group(annotations: Mapping[str, str], metadata: Mapping[str, Any]) -> None:
    """Check the annotations of a pod group."""
    size = names.annotation(annotations, names.POD_GROUP_SIZE)
    name = names.annotation(annotations, names.POD_GROUP)
    if name is None:
        for suffix in (names.POD_GROUP_SIZE, names.POD_GROUP_POLICY, names.POD_GROUP_ON_FAILURE):
            if names.annotation(annotations, suffix) is not None:
                raise InvalidPod(
                    f"metadata.annotations[{written_key(annotations, suffix)}]",
                    f"is about a group and there is none: write {names.SHORT_PREFIX}{names.POD_GROUP}, or remove this",
                )
        return
    if not name:
        raise InvalidPod(
            f"metadata.annotations[{written_key(annotations, names.POD_GROUP)}]",
            "is empty: write the name of the group",
        )
    if size is None or not (size.isascii() and size.isdecimal() and 0 < len(size) < 10 and int(size)):
        told = "is missing" if size is None else f"must be a number from 1, not {size!r}"
        raise InvalidPod(
            f"metadata.annotations[{written_key(annotations, names.POD_GROUP_SIZE)}]",
            f"{told}: write how many pods start together",
        )
    _check_choice(annotations, names.POD_GROUP_POLICY, names.POD_GROUP_POLICIES)
    _check_choice(annotations, names.POD_GROUP_ON_FAILURE, names.POD_GROUP_ON_FAILURES)
    restarts = names.annotation(annotations, names.POD_GROUP_ON_FAILURE) == names.RESTART
    if restarts and not any(owner.get("controller") for owner in metadata.get("ownerReferences") or ()):
        raise InvalidPod(
            f"metadata.annotations[{written_key(annotations, names.POD_GROUP_ON_FAILURE)}]",
            f"{names.RESTART} deletes the pods of the group for their controllers to make them anew, and this pod has "
            "none: let a Job, StatefulSet or Deployment make it, or write keep",
        )


def written_key(annotations: Mapping[str, str], suffix: str) -> str:
    """Return the key of an annotation, with the prefix that the user wrote."""
    long = names.PREFIX + suffix
    return long if long in annotations else names.SHORT_PREFIX + suffix


def _check_regexp(annotations: Mapping[str, str]) -> None:
    try:
        LabelPattern(names.annotation(annotations, names.NO_PREFIX_REGEXP))
    except InvalidPattern as error:
        key = written_key(annotations, names.NO_PREFIX_REGEXP)
        raise InvalidPod(f"metadata.annotations[{key}]", str(error)) from error


def _check_choice(annotations: Mapping[str, str], suffix: str, choices: Sequence[str]) -> None:
    value = names.annotation(annotations, suffix)
    if value is not None and value not in choices:
        key = written_key(annotations, suffix)
        raise InvalidPod(f"metadata.annotations[{key}]", f"must be {' or '.join(choices)}, not {value!r}")
