"""Rights that the local agent lacks, and rights that targets do not grant to this cluster. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from agent.api import ownroles
from agent.api.gatewayroles import GATEWAY_HOSTS, KEEP_GATEWAYS
from agent.api.hubroles import HUB
from agent.api.kinds import PLACEMENTS, SIGNERS
from agent.api.names.ocm import OURS
from agent.api.placementroles import AGENT_GRANTS, EVALUATE_PLACEMENTS, SERVE_PLACEMENTS
from agent.api.roles import (
    CLUSTER_SUMMARY_VIEWER,
    EVERYTHING,
    FEATURES,
    OPTIONAL_FEATURES,
    RUN,
    SUMMARY,
    Grant,
    role_of,
)
from agent.cli.checks.finding import Finding, fail, ok, warn
from agent.cli.checks.members import is_hub
from agent.cli.checks.view import TargetView, View

NEEDED = frozenset(
    {
        ownroles.LEADER,
        ownroles.SCHEDULE,
        ownroles.STATUS,
        ownroles.TARGET,
        ownroles.VIRTUAL_NODES,
        ownroles.NODE_LEASES,
        ownroles.DELEGATES,
        ownroles.SUMMARY,
        RUN,
        SUMMARY,
    }
)
"""Features without which pods do not run in targets. Any other missing feature disables only itself."""

_SWITCHED = frozenset(
    {
        ownroles.MOVES,
        ownroles.SOURCE_API,
        ownroles.USED,
        ownroles.SERVICE_LINKS_KEPT,
        ownroles.LINK_NAMESPACES,
        ownroles.SHARE_BY_SKUPPER,
        ownroles.SHARE_BY_LINKERD,
        ownroles.SERVE_MCS,
        ownroles.STAND_INS,
        GATEWAY_HOSTS,
        KEEP_GATEWAYS,
    }
)
"""Features granted with settings that doctor cannot see; a pod or Placement that needs one reports it itself."""

Rule = Mapping[str, Any]


def own(view: View) -> Iterator[Finding]:
    """Check that the local agent has all rights that it needs."""
    if view.rights is None:
        return
    about = f"rights of {view.rights.account}"
    missing = [grant for grant in view.rights.missing if _matters(grant, view)]
    for feature, verbs in _by_feature(missing):
        yield (fail if feature in NEEDED else warn)(
            about,
            f"it may not {verbs}, which serves: {feature}",
            "upgrade the chart, or add the verbs to its role again",
        )
    if not missing:
        yield ok(about, "the agent may do all that it needs")


def _matters(grant: Grant, view: View) -> bool:
    """Return True if a missing right matters: the chart omits rights of disabled features."""
    if grant.feature == ownroles.SELF_TARGETS:
        return any((target.manifest.get("spec") or {}).get("self") for target in view.targets)
    if grant.feature == ownroles.SOURCE:
        return bool(view.sources)
    if grant.feature == HUB:
        return is_hub(view)
    if grant.kind == SIGNERS:
        # Another signer may be configured; certificates that are issued prove it works.
        return any((target.serving or {}).get("status") == "False" for target in view.targets)
    return grant.feature not in _SWITCHED and grant not in AGENT_GRANTS


def placements(view: View) -> Iterator[Finding]:
    """Check that the agent may evaluate Placements and keep ManagedClusters if the chart has installed their CRDs."""
    crd = (view.crds or {}).get(str(PLACEMENTS), {})
    if OURS not in crd.get("metadata", {}).get("labels", {}) or view.rights is None:
        return
    lacking = {grant.feature for grant in view.rights.missing}
    if lacking & {EVALUATE_PLACEMENTS, SERVE_PLACEMENTS}:
        not_allowed_to = "evaluate them" if EVALUATE_PLACEMENTS in lacking else "keep ManagedClusters"
        yield warn(
            "Placements",
            f"their CRDs are the chart's, and the agent may not {not_allowed_to}: pods follow what was decided last",
            "set agent.placement.crds=true or agent.placement.mode=serve, unless another controller evaluates them",
        )


def granted(view: View) -> Iterator[Finding]:
    """Check that each target grants the rights of its role for sources."""
    for target in view.targets:
        yield from _granted(target)


def _granted(target: TargetView) -> Iterator[Finding]:
    if target.missing is None:
        return
    refused = not_allowed(target.missing)
    lacking = [grant for grant in target.missing if not any(grant in FEATURES[name] for name in refused)]
    for feature, verbs in _by_feature(lacking):
        roles = sorted({role_of(grant) for grant in lacking if grant.feature == feature})
        yield (fail if feature in NEEDED else warn)(
            target.title,
            f"this cluster may not {verbs} there, which serves: {feature}",
            f"in the target, see that its Source is Ready, and ClusterRole {' and '.join(roles)} complete",
        )
    if refused:
        yield ok(target.title, f"it does not allow {', '.join(refused)}, which `flotilla join --allow` changes")
    if not lacking:
        yield ok(target.title, f"it grants all {'else ' if refused else ''}that this cluster uses")


def not_allowed(lacking: Iterable[Grant]) -> list[str]:
    """Return optional features without any granted right: the Source of this cluster does not allow them."""
    all_lacking = set(lacking)
    return [name for name in OPTIONAL_FEATURES if set(FEATURES[name]) <= all_lacking]


def missing(rules: Iterable[Rule]) -> tuple[Grant, ...]:
    """Return the grants from the tables for sources that no rule covers."""
    given = list(rules)
    return tuple(
        grant for grant in (*EVERYTHING, *CLUSTER_SUMMARY_VIEWER) if not any(_allows(rule, grant) for rule in given)
    )


def _allows(rule: Rule, grant: Grant) -> bool:
    objects = rule.get("resourceNames") or ()
    return (
        _has(rule.get("verbs"), grant.verb)
        and _has(rule.get("apiGroups"), grant.kind.group)
        and (_has(rule.get("resources"), grant.resource) or (bool(grant.sub) and f"*/{grant.sub}" in rule["resources"]))
        and (not objects or (bool(grant.names) and set(grant.names) <= set(objects)))
    )


def _has(listed: Iterable[str] | None, wanted: str) -> bool:
    found = set(listed or ())
    return "*" in found or wanted in found


def _by_feature(grants: Iterable[Grant]) -> Iterator[tuple[str, str]]:
    """Yield each feature with its missing verbs and resources as text."""
    features: dict[str, dict[str, list[str]]] = {}
    for grant in grants:
        features.setdefault(grant.feature, {}).setdefault(grant.resource, []).append(grant.verb)
    for feature, resources in features.items():
        yield feature, "; ".join(f"{', '.join(verbs)} {resource}" for resource, verbs in resources.items())
