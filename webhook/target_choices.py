"""Answers about the targets that namespaces and workloads choose for their pods, and about how pods may move. No I/O.

An invalid annotation of a namespace is refused; that of a workload is only a warning.
"""

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from agent.api import cel
from agent.api.kinds import NAMESPACES
from agent.api.names import PREFIX, SHORT_PREFIX
from agent.api.names.moves import ALLOWED_TARGETS, TARGETS
from agent.api.names.p2code import FILTER
from agent.model import claimfilter, moveterms, targetchoice
from agent.model.moveterms import SUFFIXES
from agent.model.targetchoice import combine, level
from webhook.placement_entries import Entry, has_one_of
from webhook.review import Answer, Fault, Malformed, Outcome, Request, allowed, refused

KEYS = tuple(prefix + suffix for suffix in (TARGETS, ALLOWED_TARGETS) for prefix in (PREFIX, SHORT_PREFIX))
_TERMS = tuple(prefix + suffix for suffix in SUFFIXES for prefix in (PREFIX, SHORT_PREFIX))


def _value(obj: str) -> str:
    """CEL: the value of the annotation `k` of an object; empty without one."""
    annotations = f"{obj}.metadata.annotations"
    return f"(has({annotations}) && k in {annotations} ? {annotations}[k] : '')"


SAID_ANEW = f"{cel.texts(*KEYS, *_TERMS)}.exists(k, {_value('object')} != {_value('oldObject')})"
"""CEL: an annotation about targets or moves was added, changed or removed."""

_ANNOTATIONS, _OLD = (f"{each}.metadata.annotations" for each in ("object", "oldObject"))
_ASKED_ANEW = (
    f"(has({_ANNOTATIONS}) && {_ANNOTATIONS}.exists(k, k.startsWith('{FILTER}') && (request.operation == 'CREATE'"
    f" || !has({_OLD}) || !(k in {_OLD}) || {_OLD}[k] != {_ANNOTATIONS}[k])))"
)
"""CEL: an annotation that requires a claim of targets was added or changed."""

_NAMED_ANEW = f"{has_one_of(*KEYS, *_TERMS)} && (request.operation == 'CREATE' || {SAID_ANEW})"
_CONCERNED = f"({_NAMED_ANEW}) || {_ASKED_ANEW}"
ENTRY = Entry("targets", "/validate-targets-of-namespaces", NAMESPACES, _CONCERNED, labelled=True)


class Named(Protocol):
    """The targets of a namespace."""

    def named(self, namespace: str) -> tuple[Collection[str], Collection[str]]:
        """Names of its Targets, and of all ClusterTargets."""
        ...


def unknown(annotations: Mapping[str, str] | None, namespace: str, known: Named) -> list[str]:
    """A sentence about names in the annotations of an object that no target of a namespace has."""
    if not annotations or not annotations.keys() & set(KEYS):
        return []
    own, of_cluster = known.named(namespace)
    choice = combine([level("", annotations)], frozenset(own))
    missing = choice.unknown(frozenset(of_cluster)) if choice is not None else ()
    if not missing:
        return []
    keys = " and ".join(key for key in KEYS if key in annotations)
    told = (
        f"{keys}: no Target in namespace {namespace} and no ClusterTarget is called {', '.join(missing)}: see that it"
        " is spelt as its Target is, or create that"
    )
    return [told]


def new_faults(old: Any, new: Any) -> list[Fault]:
    """Return the invalid annotations of an object that were not invalid before."""
    had = set(_flaws(_annotations(old)))
    return [Fault(*each) for each in _flaws(_annotations(new)) if each not in had]


def of_namespace(request: Request, known: Named) -> Answer:
    """Check the annotations of a namespace; earlier faults are only a warning. Raises Malformed."""
    namespace = request.get("object")
    if not isinstance(namespace, dict) or namespace.get("kind") != NAMESPACES.name:
        raise Malformed("request.object is no Namespace: the webhook's rules may name these only")
    if faults := new_faults(request.get("oldObject"), namespace):
        return refused(request, faults)
    annotations = _annotations(namespace)
    name = str((namespace.get("metadata") or {}).get("name") or "")
    told = [f"{field}: {reason}" for field, reason in _flaws(annotations)]
    return allowed(request, Outcome.VALID, [*told, *unknown(annotations, name, known)])


def of_workload(request: Request, known: Named) -> list[str]:
    """Return warnings about a workload's own annotations."""
    annotations = _annotations(request.get("object"))
    told = [f"{field}: {reason}" for field, reason in (*targetchoice.flaws(annotations), *moveterms.flaws(annotations))]
    told += [
        f"metadata.annotations[{key}]: counts for nothing here: write it into the annotations of the pod template, or"
        " of the namespace"
        for key, _ in claimfilter.level("", annotations).wanted
    ]
    return [*told, *unknown(annotations, request.get("namespace") or "", known)]


def _flaws(annotations: Mapping[str, str]) -> list[tuple[str, str]]:
    return [*targetchoice.flaws(annotations), *moveterms.flaws(annotations), *claimfilter.flaws(annotations)]


def _annotations(obj: Any) -> Mapping[str, str]:
    found = (obj.get("metadata") or {}).get("annotations") if isinstance(obj, dict) else None
    return found or {}
