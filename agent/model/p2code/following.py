"""Objects that follow pods of an application's workloads to targets, and objects that cannot. Pure.

A NetworkPolicy that admits pods by their labels matches only pods of its own cluster, and blocks callers in
other clusters. So it follows only if gateways are admitted.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from agent.api import names
from agent.api.names.links import ADMIT_GATEWAY
from agent.model.p2code.index import Index
from agent.model.p2code.manifests import DEFAULT, Manifest, Raw, at, objects, text

ACCOUNT, ROLES, POLICIES = (
    names.SHORT_PREFIX + each for each in (names.FOLLOW_ACCOUNT, names.FOLLOW_ROLES, names.FOLLOW_POLICIES)
)
KEYS = (ACCOUNT, ROLES, POLICIES)
"""Annotations of pods that this module sets."""


class Following(NamedTuple):
    """Objects that follow the pods of one workload, and objects that do not."""

    annotations: tuple[str, ...] = ()
    """Annotations among `KEYS` for its pods."""
    policies: tuple[Manifest, ...] = ()
    """NetworkPolicies that select its pods and stay in the source."""
    bindings: tuple[Manifest, ...] = ()
    """Bindings of its service account that give it no rights in a target, or other rights."""


NOTHING = Following()


def of_bundle(workload: Manifest, belonging: Sequence[Manifest], *, apart: bool) -> Following:
    """Return the objects that follow a workload in a bundle of its own objects.

    :param apart: whether other workloads of the application may be in other clusters
    """
    account = _account(workload)
    kinds = ("RoleBinding", "ClusterRoleBinding", "NetworkPolicy")
    bindings, wide, policies = ([each for each in belonging if each.kind == kind] for kind in kinds)
    named = any(each.kind == "ServiceAccount" and each.name == account for each in belonging)
    roles = {each.name for each in belonging if each.kind == "ClusterRole"}
    return _following(named, bindings, wide, roles, policies, apart=apart)


def in_application(workload: Manifest, index: Index) -> Following:
    """Return the objects that follow a workload whose whole application is placed in one cluster."""
    namespace, account = workload.namespace, _account(workload)
    named = index.named("ServiceAccount", namespace, account) is not None
    found = {kind: [*index.bindings(kind, namespace, account)] for kind in ("RoleBinding", "ClusterRoleBinding")}
    # The default account exists in every cluster, and its bindings follow as well.
    bindings, wide = found["RoleBinding"], found["ClusterRoleBinding"]
    roles = {each.name for each in index.all("ClusterRole", "")}
    return _following(named, bindings, wide, roles, index.selecting("NetworkPolicy", workload), apart=False)


def _following(
    account: bool,
    bindings: Sequence[Manifest],
    wide: Sequence[Manifest],
    roles: set[str],
    policies: Sequence[Manifest],
    *,
    apart: bool,
) -> Following:
    stay = tuple(each for each in policies if apart and _cuts(each))
    follows = (account, bool(bindings), len(policies) > len(stay) and not stay)
    own = [each for each in bindings if text(each.raw, "roleRef", "name") in roles and _is_cluster_role(each)]
    annotations = tuple(key for key, follow in zip(KEYS, follows, strict=True) if follow)
    return Following(annotations, stay, (*wide, *own))


def written(workload: Manifest, found: Following, live: Raw, author: Raw) -> Mapping[str, str]:
    """Return the annotations that make objects follow, for the pod template of a workload.

    :param live: annotations of the live template: a change replaces pods, and API servers reject it for a Job
    :param author: annotations of the template in the manifest, which take precedence
    """
    if workload.kind == "Job" and live:
        return {key: str(live[key]) for key in KEYS if key in live}
    kept = {key for key in KEYS if live.get(key) == "true" and not (key == POLICIES and found.policies)}
    return {key: "true" for key in KEYS if (key in found.annotations or key in kept) and key not in author}


def policies_left(every: Iterable[Following]) -> str:
    """Return the message about NetworkPolicies that stay in the source, with the remedy; empty for none."""
    shown = _names(each for found in every for each in found.policies)
    if not shown:
        return ""
    return (
        f"{shown} limits traffic to pods of its own cluster, and does not follow, for callers in other clusters would"
        f' be cut off: annotate it {names.SHORT_PREFIX}{ADMIT_GATEWAY}: "true" to admit gateways (rules for ingress),'
        f' or its pods {POLICIES}: "true" to have it follow all the same'
    )


def rights_left(every: Iterable[Following]) -> str:
    """Return the message about bindings without effect in targets, with the remedy; empty for none."""
    shown = _names(each for found in every for each in found.bindings)
    remedy = "use Roles and RoleBindings, or make the ClusterRole in the target"
    return f"{shown}: ClusterRoles and ClusterRoleBindings do not follow pods: {remedy}" if shown else ""


def _names(manifests: Iterable[Manifest]) -> str:
    found = [*dict.fromkeys(str(each.identity) for each in manifests)]
    return ", ".join(found[:_SHOWN]) + (f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else "")


_SHOWN = 5


def _account(workload: Manifest) -> str:
    return text(workload.template, "spec", "serviceAccountName") or DEFAULT


def _is_cluster_role(binding: Manifest) -> bool:
    return text(binding.raw, "roleRef", "kind") == "ClusterRole"


def _cuts(policy: Manifest) -> bool:
    """Return whether a NetworkPolicy would block pods of other clusters that its author wants to admit."""
    if any(_limits(rule, "to") for rule in objects(policy.raw, "spec", "egress")):
        return True
    admits = names.annotation(_texts(policy.annotations), ADMIT_GATEWAY) == "true"
    return not admits and any(_limits(rule, "from") for rule in objects(policy.raw, "spec", "ingress"))


def _limits(rule: Raw, side: str) -> bool:
    return any("podSelector" in peer or "namespaceSelector" in peer for peer in objects(rule, side))


def _texts(raw: Raw) -> dict[str, str]:
    return {key: each for key, each in raw.items() if isinstance(each, str)}


def template_annotations(workload: Manifest, raw: Raw) -> Raw:
    """Return the annotations of a workload's pod template in another version of it."""
    return at(raw, *workload.template_path, "metadata", "annotations")
