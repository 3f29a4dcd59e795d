"""Constraints that were added to a proxy pod after the webhook had removed the user's.

A queue such as Kueue gates the pod, writes the node labels and tolerations of the chosen flavour into it, and removes
the gate. Other webhooks add constraints at admission. Unless they name virtual nodes, added constraints refer to real
nodes and are copied to the target with the user's own. Kubernetes lets gated pods gain node selectors, requirements of
required node affinity, preferences and tolerations, but never lose any.

If the user's constraints select the virtual node (`use-constraints-from-spec-for-proxy-pod-scheduling`), so do the
added ones.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from agent.api import names
from agent.api.labels import HOSTNAME
from agent.model.diff import others
from agent.model.errors import InvalidPod
from agent.model.proxypod import TOLERATIONS, given_constraints, is_limited

Raw = dict[str, Any]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_PARTS = ("matchExpressions", "matchFields")
_OF_VIRTUAL_NODES = (("type", "virtual-kubelet"), ("kubernetes.io/role", "cluster"))
_NODE_PREFIX = "admiralty-"
"""Prefix of the names of virtual nodes."""
MOST_TERMS = 100
"""Maximum number of terms in a delegate's required node affinity; each user's term is combined with each added one."""


class Additions(NamedTuple):
    """Added constraints to copy to the target."""

    selector: Mapping[str, str]
    terms: tuple[Raw, ...]
    """Terms of required node affinity; a node has to match one of them. Empty for none."""
    preferred: tuple[Raw, ...]
    tolerations: tuple[Raw, ...]
    given: Raw
    """Constraints of the proxy pod from its user's annotations, cached because parsing them can take long."""


_NONE = Additions({}, (), (), (), {})


def may_be(spec: Mapping[str, Any]) -> bool:
    """Return True if a proxy pod can have more constraints than the webhook gives to most pods; a cheap check."""
    return (
        len(spec.get("nodeSelector") or ()) > 1
        or bool((spec.get("affinity") or {}).get("nodeAffinity"))
        or len(spec.get("tolerations") or ()) > len(TOLERATIONS)
    )


def of(spec: Mapping[str, Any], source: Raw) -> Additions:
    """Return the constraints that were added to a proxy pod.

    :param spec: spec of the proxy pod

    :param source: the pod as its user sent it, from the manifest
    :raises InvalidPod: if the constraints of the manifest cannot be read
    """
    if not may_be(spec):
        return _NONE
    given = given_constraints(source)
    tolerations = others(spec.get("tolerations") or (), [*TOLERATIONS, *given.get("tolerations", ())])
    tolerations = [each for each in tolerations if not is_limited(each)]
    if names.annotation(source["metadata"].get("annotations"), names.USE_CONSTRAINTS) is not None:
        return _NONE._replace(tolerations=tuple(tolerations), given=given)
    before = given.get("nodeSelector") or {}
    selector = {
        key: value
        for key, value in (spec.get("nodeSelector") or {}).items()
        if key not in before and not _names_virtual_node(key, (value,))
    }
    now, was = _node_affinity(spec), _node_affinity(given)
    terms = _added_terms(now.get(_REQUIRED), was.get(_REQUIRED))
    preferred = others(now.get(_PREFERRED) or (), was.get(_PREFERRED) or ())
    return Additions(
        selector,
        () if any(map(_is_about_virtual_nodes, terms)) else tuple(terms),
        tuple(each for each in preferred if not _is_about_virtual_nodes(each["preference"])),
        tuple(tolerations),
        given,
    )


def with_additions(constraints: Raw, added: Additions) -> Raw:
    """Return the delegate's constraints except tolerations: those of the user's pod and the added ones.

    :raises InvalidPod: if they contradict each other, or have too many terms
    """
    found = dict(constraints)
    if added.selector:
        found["nodeSelector"] = _united(constraints.get("nodeSelector") or {}, added.selector)
    if added.terms or added.preferred:
        affinity = _node_affinity(constraints)
        node: Raw = dict(affinity)
        if added.terms:
            node[_REQUIRED] = {"nodeSelectorTerms": _each_with_each(affinity.get(_REQUIRED), added.terms)}
        if added.preferred:
            node[_PREFERRED] = [*(affinity.get(_PREFERRED) or ()), *added.preferred]
        found["affinity"] = {**(constraints.get("affinity") or {}), "nodeAffinity": node}
    return found


def without_additions(spec: Mapping[str, Any], added: Additions) -> Raw:
    """Return a proxy pod's spec without added node selectors and affinity, which concern the target's nodes."""
    found = dict(spec)
    if added.selector:
        kept = {key: value for key, value in spec["nodeSelector"].items() if key not in added.selector}
        found["nodeSelector"] = kept
    if added.terms or added.preferred:
        now, was = _node_affinity(spec), _node_affinity(added.given)
        node = {
            **({_REQUIRED: was[_REQUIRED]} if was.get(_REQUIRED) else {}),
            _PREFERRED: [each for each in now.get(_PREFERRED) or () if each not in added.preferred],
        }
        if not added.terms and now.get(_REQUIRED):
            node[_REQUIRED] = now[_REQUIRED]
        found["affinity"] = {**spec["affinity"], "nodeAffinity": node}
    return found


def _united(mine: Mapping[str, str], added: Mapping[str, str]) -> dict[str, str]:
    for key, value in added.items():
        if mine.get(key, value) != value:
            raise InvalidPod(
                f"spec.nodeSelector[{key}]",
                f"{value!r} was added to the proxy pod, and its user asks for {mine[key]!r}: no node can have both;"
                " correct the one or the other and create the pod again",
            )
    return {**mine, **added}


def _each_with_each(mine: Mapping[str, Any] | None, added: tuple[Raw, ...]) -> list[Raw]:
    terms = (mine or {}).get("nodeSelectorTerms") or [{}]
    if len(terms) * len(added) > MOST_TERMS:
        raise InvalidPod(
            "spec.affinity.nodeAffinity",
            f"{len(terms)} terms of the pod's user with {len(added)} that were added make more than {MOST_TERMS}:"
            " write fewer",
        )
    return [
        {part: both for part in _PARTS if (both := [*(one.get(part) or ()), *(other.get(part) or ())])}
        for one in terms
        for other in added
    ]


def _node_affinity(constraints: Mapping[str, Any]) -> Mapping[str, Any]:
    return (constraints.get("affinity") or {}).get("nodeAffinity") or {}


def _added_terms(now: Mapping[str, Any] | None, was: Mapping[str, Any] | None) -> list[Raw]:
    """Return the added requirements term by term; [] if a term has none, since one matching term suffices.

    The API server lets terms grow only at their ends (kubernetes: `validateNodeAffinityMutation`).
    """
    terms, before = ((each or {}).get("nodeSelectorTerms") or () for each in (now, was))
    if not before:
        return list(terms)
    grown = [
        {part: more for part in _PARTS if (more := (term.get(part) or [])[len(old.get(part) or ()) :])}
        for term, old in zip(terms, before, strict=False)
    ]
    return grown if all(grown) else []


def _is_about_virtual_nodes(term: Mapping[str, Any]) -> bool:
    return any(
        _names_virtual_node(each.get("key", ""), each.get("values") or ())
        for part in _PARTS
        for each in term.get(part) or ()
    )


def _names_virtual_node(key: str, values: Iterable[str]) -> bool:
    """Return True if a requirement with this key and these values refers to virtual nodes."""
    if key == names.PROVIDER_KEY or names.is_ours(key):
        return True
    if key in (HOSTNAME, "metadata.name"):
        return any(value.startswith(_NODE_PREFIX) for value in values)
    return any((key, value) in _OF_VIRTUAL_NODES for value in values)
