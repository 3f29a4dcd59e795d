"""Number of mirrored EndpointSlices by namespace. Pure."""

from collections import defaultdict
from collections.abc import Iterator

from agent.api.conditions import condition_of
from agent.api.names.links import SERVICES_SHARED
from agent.cli.checks.finding import Finding, warn
from agent.cli.checks.view import TargetView, View
from agent.drivers.driver import BY_ADDRESSES
from agent.model.mirrorcount import MIRRORS_LIMIT, most


def mirrors(view: View) -> Iterator[Finding]:
    """Check that no namespace has more mirrored EndpointSlices than the limit."""
    targets = [each.services for each in view.targets if each.services is not None and _is_mirrored(each)]
    clusters = defaultdict[str, list[int]](list)
    for service in sorted(view.shared or ()):
        clusters[service[0]].append(1 + sum(service in each for each in targets))
    for namespace, counts in clusters.items():
        if (found := most(counts)) > MIRRORS_LIMIT:
            many = f"up to {found} mirrored EndpointSlices, more than {MIRRORS_LIMIT}"
            yield warn(
                f"namespace {namespace}",
                f"its {len(counts)} shared Services have {many}",
                "share fewer Services, limit the clusters of each by ServiceLinks, or use another network driver",
            )


def _is_mirrored(target: TargetView) -> bool:
    said = condition_of(target.manifest, SERVICES_SHARED) or {}
    return said.get("reason") == BY_ADDRESSES
