"""Checks of a hub: its published address, requests that wait, and members that are lost. Pure."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from agent.api.conditions import condition_of
from agent.api.hubpolicies import ACCEPTANCE
from agent.api.names.hub import ACCEPTED, CLOCK_SYNCED, DELETING, JOINED
from agent.api.names.ocm import CONDITION_AVAILABLE, OURS
from agent.base.clock import parse
from agent.cli.checks.finding import Finding, ok, warn
from agent.cli.checks.view import View

Raw = dict[str, Any]

PATIENCE = timedelta(minutes=5)
"""Time for which a request may wait, or an accepted cluster may not have joined."""


def is_hub(view: View) -> bool:
    """Return whether the cluster is a hub."""
    return ACCEPTANCE in (view.policies or ())


def members(view: View) -> Iterator[Finding]:
    """Check that clusters can join, and that members are well."""
    if not is_hub(view):
        return
    if view.hub_address is None:
        yield warn("hub", "ConfigMap kube-public/cluster-info does not say where it is", "flotilla hub init")
    for asked in view.asked:
        waits = view.now - parse(asked.created)
        if asked.state == "waits" and waits > PATIENCE:
            remedy = f"flotilla hub accept {asked.cluster} --key {asked.key}, or flotilla hub reject {asked.cluster}"
            yield warn(f"cluster {asked.cluster}", f"request {asked.name} of {asked.requester} waits", remedy)
        elif asked.state.startswith("ignored"):
            remedy = "have its agent ask again, or kubectl delete csr " + asked.name
            yield warn(f"cluster {asked.cluster}", f"request {asked.name} is {asked.state}", remedy)
    found = [each for each in view.members if OURS not in (each["metadata"].get("labels") or {})]
    flaws = [finding for each in found for finding in _member(each, view)]
    yield from flaws
    if not flaws:
        yield ok("hub", f"{len(found)} members, all well")


def _member(cluster: Raw, view: View) -> Iterator[Finding]:
    name, title = cluster["metadata"]["name"], f"cluster {cluster['metadata']['name']}"
    accepted, available, deleting = (condition_of(cluster, each) for each in (ACCEPTED, CONDITION_AVAILABLE, DELETING))
    if deleting is not None and deleting["status"] == "False":
        yield warn(title, deleting["message"], f"start its agent, or flotilla hub remove {name} --abandon")
        return
    if accepted is None or accepted["status"] != "True":
        if accepted is not None and accepted["reason"] == "Error":
            yield warn(title, f"it is accepted, and has no rights: {accepted['message']}", "see there")
        return
    if condition_of(cluster, JOINED) is None:
        if view.now - parse(accepted["lastTransitionTime"]) > PATIENCE:
            yield warn(title, "it is accepted and has not joined", f"see its agent, and flotilla hub requests {name}")
        return
    if available is not None and available["status"] != "True":
        yield warn(title, f"it is not available: {available['message']}", "see its agent, and its way to this hub")
    clock = condition_of(cluster, CLOCK_SYNCED)
    if clock is not None and clock["status"] == "False":
        yield warn(title, clock["message"], "set the clocks of both by NTP")
