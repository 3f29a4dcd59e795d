"""All checks, in the order in which their findings are printed. Pure."""

from collections.abc import Callable, Iterator

from agent.api.admission import policies as made
from agent.api.kinds import POLICIES
from agent.cli.checks import (
    clusters,
    dialed,
    endpointless,
    linked,
    lookup,
    members,
    mirrored,
    namespaces,
    rights,
    staying,
    targets,
    webhook,
)
from agent.cli.checks.finding import Finding, ok, warn
from agent.cli.checks.view import View


def policies(view: View) -> Iterator[Finding]:
    """Check that all policies exist and are bound; none exists with `admissionPolicies.enabled=false`."""
    if view.policies is None:
        return
    wanted = [obj["metadata"]["name"] for obj in made("", "", "") if obj["kind"] == POLICIES.name]
    missing = [name for name in wanted if name not in view.policies]
    if len(missing) == len(wanted):
        yield ok("policies", "none is installed (admissionPolicies.enabled): proxy pods and our accounts are unguarded")
        return
    for name in missing:
        yield warn(
            f"ValidatingAdmissionPolicy {name}",
            "it is missing, or no binding has it deny anything",
            "upgrade the chart; where the release is of this version already, delete both and upgrade it again",
        )
    if not missing:
        yield ok("policies", f"all {len(wanted)} are in force")


Check = Callable[[View], Iterator[Finding]]


def _unread(view: View) -> Iterator[Finding]:
    for what, why in view.unread:
        yield warn(what, f"it cannot be checked: {why}", "run this again as a user who may read it")


CHECKS: tuple[Check, ...] = (
    clusters.versions,
    clusters.definitions,  # Prerequisites of everything else ...
    clusters.agents,
    rights.own,
    rights.placements,
    policies,
    webhook.webhook,
    namespaces.namespaces,
    namespaces.system,
    targets.targets,  # ... then each target ...
    targets.credentials,
    rights.granted,
    targets.sources,
    clusters.clocks,
    members.members,
    namespaces.unproxied,  # ... and faults that remain all the same.
    staying.staying,
    namespaces.obstacles,
    endpointless.services,
    lookup.services,
    mirrored.mirrors,
    linked.links,
    linked.gateways,
    dialed.exposed,
    dialed.gateways,
    namespaces.unscheduled,
    _unread,
)


def examine(view: View) -> list[Finding]:
    """Return the findings of all checks."""
    return [finding for check in CHECKS for finding in check(view)]
