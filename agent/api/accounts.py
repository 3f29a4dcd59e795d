"""Service accounts of Flotilla's processes: their grants, and the roles that contain these."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from agent.api.kinds import CLUSTER_ROLES, SERVICE_ACCOUNTS, Kind
from agent.api.roles import Grant, rules

HOME = "home"
"""Scope of grants: the namespace in which the process runs."""


@dataclass(frozen=True)
class Account:
    """All grants of one process, by scope: empty for all namespaces, HOME, or the name of a namespace."""

    name: str
    grants: dict[str, tuple[Grant, ...]]


def grants(kind: Kind, verbs: str, feature: str, *, sub: str = "", names: tuple[str, ...] = ()) -> tuple[Grant, ...]:
    """Return grants of several verbs, separated by spaces, on one resource."""
    return tuple(Grant(kind, verb, feature, sub, names) for verb in verbs.split())


def blocks(account: Account) -> dict[str, list[dict[str, Any]]]:
    """Return rules by scope and feature, in the form of the chart, which leaves out the features that are
    switched off.
    """
    return {
        scope or "cluster": [
            {"feature": feature, "rules": rules([grant for grant in granted if grant.feature == feature])}
            for feature in dict.fromkeys(grant.feature for grant in granted)
        ]
        for scope, granted in account.grants.items()
    }


def role_objects(account: Account, home: str, *, without: Collection[str] = ()) -> list[dict[str, Any]]:
    """Return the roles and bindings of an account in namespace `home`; `without` contains features that are
    switched off.
    """
    found: list[dict[str, Any]] = []
    for scope, granted in account.grants.items():
        namespace = home if scope == HOME else scope
        name = f"flotilla-{account.name}" + (f"-{scope}" if scope else "")
        found += _bound(name, account.name, home, namespace, [each for each in granted if each.feature not in without])
    return found


def _bound(name: str, account: str, home: str, namespace: str, granted: Iterable[Grant]) -> list[dict[str, Any]]:
    kind, metadata = ("Role", {"name": name, "namespace": namespace}) if namespace else ("ClusterRole", {"name": name})
    group = CLUSTER_ROLES.group
    head = {"apiVersion": CLUSTER_ROLES.api_version, "metadata": metadata}
    subject = {"kind": SERVICE_ACCOUNTS.name, "name": f"flotilla-{account}", "namespace": home}
    return [
        {**head, "kind": kind, "rules": rules(granted)},
        {
            **head,
            "kind": f"{kind}Binding",
            "roleRef": {"apiGroup": group, "kind": kind, "name": name},
            "subjects": [subject],
        },
    ]
