"""All checks, in the order in which their findings are told. Pure."""

from collections.abc import Callable, Iterator

from agent.cli.checks import clusters, lookup, namespaces, rights, targets, webhook
from agent.cli.checks.finding import Finding, warn
from agent.cli.checks.policies import policies
from agent.cli.checks.view import View

Check = Callable[[View], Iterator[Finding]]


def _unread(view: View) -> Iterator[Finding]:
    for what, why in view.unread:
        yield warn(what, f"it cannot be checked: {why}", "run this again as a user who may read it")


CHECKS: tuple[Check, ...] = (
    clusters.versions,
    clusters.definitions,  # What nothing works without comes first ...
    clusters.agents,
    rights.own,
    policies,
    webhook.webhook,
    namespaces.namespaces,
    namespaces.system,
    targets.targets,  # ... then each target ...
    targets.credentials,
    rights.granted,
    targets.sources,
    clusters.clocks,
    namespaces.unproxied,  # ... and what goes wrong all the same.
    namespaces.obstacles,
    lookup.services,
    namespaces.unscheduled,
    _unread,
)


def examine(view: View) -> list[Finding]:
    """Everything that there is to say."""
    return [finding for check in CHECKS for finding in check(view)]
