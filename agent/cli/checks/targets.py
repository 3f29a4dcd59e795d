"""Findings from Targets, their virtual nodes, credentials and Sources. Pure."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from agent.api import names
from agent.api.conditions import condition_of, find_condition
from agent.api.names.links import GATEWAY_USABLE, SERVICES_SHARED
from agent.cli.checks.finding import Finding, fail, ok, warn
from agent.cli.checks.rights import not_allowed
from agent.cli.checks.view import Credentials, Raw, TargetView, View
from agent.cli.fleet.units import age

LAST_SHARE, LAST = 0.15, timedelta(days=30)
"""Credentials have not been renewed if less than this share of their lifetime, and less than so many days, is left."""

_TOLD_ELSEWHERE = ("Ready", "Reachable", "Authorized", "AgentReady", GATEWAY_USABLE)
"""Conditions that other checks report: parts of Ready, and one that only matters to ServiceLinks."""
_RENEW = "create a new token for its Source (`flotilla join` does), and put the kubeconfig into the Secret"


def targets(view: View) -> Iterator[Finding]:
    """Check that every target is ready, has a virtual node that accepts pods, and has no condition that is False."""
    for target in view.targets:
        yield from _conditions(target)
        yield from _node(target)
        if target.unread:
            yield warn(
                target.title,
                f"it was not asked itself: {target.unread}",
                "try again where its server can be reached, as a user who may read its kubeconfig Secret",
            )


def _conditions(target: TargetView) -> Iterator[Finding]:
    conditions = (target.manifest.get("status") or {}).get("conditions")
    ready = find_condition(conditions, "Ready")
    if ready is None:
        yield fail(target.title, "no agent has said anything about it", "see that the agent of this cluster runs")
        return
    if ready["status"] != "True":
        yield fail(target.title, f"it is not Ready ({ready.get('reason')})", str(ready.get("message", "")))
    else:
        yield ok(target.title, "it is Ready")
    for condition in conditions or ():
        if condition["type"] in _TOLD_ELSEWHERE or condition["status"] != "False":
            continue
        if condition["type"] == SERVICES_SHARED and "services" in not_allowed(target.missing or ()):
            # The target's administrator has not allowed it; the check of rights reports that.
            continue
        yield warn(
            target.title, f"{condition['type']} is False ({condition.get('reason')})", condition.get("message", "")
        )
    shared = find_condition(conditions, SERVICES_SHARED)
    if shared is not None and shared["status"] == "True":
        yield ok(target.title, str(shared.get("message", "")))


def _node(target: TargetView) -> Iterator[Finding]:
    name = names.virtual_node(target.namespace, target.name)
    if target.node is None:
        yield fail(target.title, f"it has no virtual node {name}, so it gets no pods", "see why it is not Ready")
        return
    status = target.node.get("status") or {}
    if (target.node.get("spec") or {}).get("unschedulable"):
        yield warn(target.title, "it is cordoned: it gets no new pods", f"`flotilla undrain {target.name}` ends that")
    if not (status.get("allocatable") or {}).get("cpu"):
        yield fail(
            target.title,
            f"its virtual node {name} has no size",
            "in the target, see that its agent runs and has made the ClusterSummary, and that the Source may read it",
        )
    serving = target.serving
    if serving is not None and serving["status"] != "True":
        yield warn(
            target.title,
            f"logs, exec and the like do not work: {serving.get('message', '')}",
            "name one that signs (agent.settings.kubelet-signer), or approve the CertificateSigningRequest",
        )


def credentials(view: View) -> Iterator[Finding]:
    """Check that tokens and client certificates in kubeconfig Secrets do not expire soon."""
    for target in view.targets:
        if target.credentials is not None:
            yield _lifetime(target.title, target.credentials, view.now)


def _lifetime(about: str, given: Credentials, now: datetime) -> Finding:
    what = f"the {given.what} in {given.secret}"
    if given.ends is None:
        return ok(about, f"{what} does not end")
    left = given.ends - now
    if left <= timedelta(0):
        return fail(about, f"{what} expired {age(-left.total_seconds())} ago", _RENEW)
    life = given.ends - given.issued if given.issued is not None else LAST / LAST_SHARE
    if left < min(life * LAST_SHARE, LAST):
        return warn(about, f"{what} expires in {age(left.total_seconds())}", _RENEW)
    return ok(about, f"{what} is valid for another {age(left.total_seconds())}")


def sources(view: View) -> Iterator[Finding]:
    """Check that sources have received the rights that their Sources in this cluster name."""
    for source in view.sources:
        yield from _source(source)


def _source(source: Raw) -> Iterator[Finding]:
    metadata = source["metadata"]
    about = "source " + "/".join(part for part in (metadata.get("namespace"), metadata["name"]) if part)
    ready = condition_of(source, "Ready")
    if ready is None:
        yield warn(about, "no agent has said anything about it", "see that the agent of this cluster runs")
    elif ready["status"] != "True":
        yield fail(about, f"it is not Ready ({ready.get('reason')})", str(ready.get("message", "")))
    else:
        yield ok(about, "it is Ready")
    exclusive = condition_of(source, "AccountExclusive") or {}
    if exclusive.get("status") == "False":
        shared = f"its service account is shared ({exclusive.get('reason')})"
        yield warn(about, shared, str(exclusive.get("message", "")))
