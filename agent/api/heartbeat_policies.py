"""Policy by which each source writes only its own heartbeats, and a limited number of them (CEL).

The heartbeats of all sources are annotations of one Lease, and RBAC rules apply to whole objects.
"""

from typing import Any

from agent.api import cel, names
from agent.api.kinds import LEASES

Raw = dict[str, Any]

SIGNS = "multicluster-scheduler-source-signs"

LONGEST = 512
"""Most characters of a heartbeat."""
SHARED_AT_MOST = 100
"""Most heartbeats under keys that any source may write."""
OWN_AT_MOST = 8
"""Most heartbeats under keys of one account, each for another UID of a source."""
_KEPT = ("metadata.labels", "metadata.finalizers", "metadata.ownerReferences")


def specs(home: str) -> dict[str, Raw]:
    """Return the policy by name.

    :param home: namespace of the agent
    """
    return {SIGNS: _signs(home)}


def _signs(home: str) -> Raw:
    """Return the policy: users write keys of their own account and shared keys only, unless they may delete the
    Lease.
    """
    shared, before, after = names.sign(""), "variables.before", "variables.after"
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": home}},
            "resourceRules": [
                cel.rule(LEASES.group, ["CREATE", "UPDATE"], [LEASES.plural], version="v1"),
            ],
        },
        "matchConditions": [
            # One condition: with several, the API server would evaluate each one, and so call the authorizer
            # for every Lease.
            {
                "name": "is-of-the-sources",
                "expression": f"object.metadata.name == '{names.LEASE_SOURCES}' && !{_may_delete()}",
            },
        ],
        "variables": [
            _annotations("before", "oldObject"),
            _annotations("after", "object"),
            {"name": "own", "expression": _own(shared)},
            {"name": "changed", "expression": f"{after}.filter(k, !(k in {before}) || {before}[k] != {after}[k])"},
            {"name": "removed", "expression": f"{before}.filter(k, !(k in {after}))"},
        ],
        "validations": _validations(shared),
    }


def _validations(shared: str) -> list[Raw]:
    before, after = "variables.before", "variables.after"
    field = f"metadata.annotations of Lease {names.LEASE_SOURCES}"
    mine = "(variables.own != '' && k.startsWith(variables.own))"
    text = f"{after}[k]"
    # JSON without escapes, which contains the account once, so that every parser finds this account.
    named = (
        f"({text}.contains('\"account\":\"' + request.userInfo.username + '\"')"
        f" && {text}.split('\"account\"').size() == 2 && !{text}.contains('\\\\'))"
    )
    new_shared = f"variables.changed.exists(k, k.startsWith('{shared}') && !(k in {before}))"
    return [
        _refuse(
            f"(variables.changed + variables.removed).all(k, k.startsWith('{shared}') || {mine})",
            f"{field}: a source gives signs of life under keys of its own account (UID.{shared}...), or under"
            f" {shared}...: leave those of others as they are",
        ),
        _refuse(
            f"variables.changed.all(k, {text}.size() <= {LONGEST} && (k.startsWith('{shared}') || {named}))",
            f"{field}: a sign of life has {LONGEST} characters at most, and under a key of an account it names"
            " that account: update the agent of the source",
        ),
        _refuse(
            f"!{new_shared} || {after}.filter(k, k.startsWith('{shared}')).size() <= {SHARED_AT_MOST}",
            f"{field}: there are {SHARED_AT_MOST} keys {shared}... already: have an administrator remove those of"
            " sources that are gone (flotilla orphans --delete)",
        ),
        _refuse(
            f"{after}.filter(k, {mine}).size() <= {OWN_AT_MOST}",
            f"{field}: an account gives signs of {OWN_AT_MOST} sources at most: remove those of sources that are gone",
        ),
        _refuse(
            " && ".join([*map(_is_kept, _KEPT), "(oldObject == null || object.spec == oldObject.spec)"]),
            f"Lease {names.LEASE_SOURCES}: a source changes its signs of life only, which are annotations: leave"
            " the rest as it is",
        ),
    ]


def _may_delete() -> str:
    """Return CEL: the user may delete the Lease. No role of a source allows that, the roles for fences included."""
    lease = f"group('{LEASES.group}').resource('{LEASES.plural}')"
    asked = f"{lease}.namespace(request.namespace).name('{names.LEASE_SOURCES}')"
    return f"authorizer.{asked}.check('delete').allowed()"


def _own(shared: str) -> str:
    known = "request.userInfo.username.startsWith('system:serviceaccount:') && has(request.userInfo.uid)"
    return f"{known} && request.userInfo.uid != '' ? request.userInfo.uid + '.{shared}' : ''"


def _annotations(name: str, lease: str) -> Raw:
    there = f"{lease} != null && has({lease}.metadata.annotations)"
    return {"name": name, "expression": f"{there} ? {lease}.metadata.annotations : {{}}"}


def _is_kept(path: str) -> str:
    """Return CEL: a new Lease does not have the field, and an update leaves it unchanged."""
    had = f"(oldObject != null && has(oldObject.{path}))"
    return f"(has(object.{path}) ? ({had} && object.{path} == oldObject.{path}) : !{had})"


def _refuse(unless: str, message: str) -> Raw:
    return {"expression": unless, "message": message, "reason": "Forbidden"}
