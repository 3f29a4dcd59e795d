"""Whether the policies of this version are in force. Pure."""

from collections.abc import Iterator

from agent.api.admission import policies as made
from agent.api.kinds import POLICIES
from agent.cli.checks.finding import Finding, ok, warn
from agent.cli.checks.view import View


def policies(view: View) -> Iterator[Finding]:
    """All policies are there and bound; none at all is what `admissionPolicies.enabled=false` means."""
    if view.policies is None:
        return
    wanted = [obj["metadata"]["name"] for obj in made("", "") if obj["kind"] == POLICIES.name]
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
