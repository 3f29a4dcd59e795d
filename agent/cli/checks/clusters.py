"""Kubernetes, agents, leases and clocks of each cluster, and the CRDs of this one. Pure."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from agent.api.crds import crds
from agent.api.names.links import OWN_GROUP
from agent.cli.checks.finding import Finding, fail, ok, warn
from agent.cli.checks.view import ClusterView, View
from agent.cli.fleet.source_queries import SILENT, renewals
from agent.cli.fleet.units import age

OLDEST = (1, 30)
"""Oldest Kubernetes: webhooks need matchConditions (ruling 15)."""
SKEW_WARN, SKEW_FAIL = 10.0, 240.0
"""Clock skew in seconds. Certificates are valid from five minutes before their creation."""
_VERSION = re.compile(r"v?(\d+)\.(\d+)")

Version = tuple[int, int]


def versions(view: View) -> Iterator[Finding]:
    """Check that Kubernetes is new enough in all clusters, and that agents have this command's minor version."""
    for cluster in _clusters(view):
        found = _version(cluster.kubernetes)
        if found is None:
            continue
        if found < OLDEST:
            needed = ".".join(map(str, OLDEST))
            yield fail(
                cluster.title,
                f"Kubernetes {cluster.kubernetes} is older than {needed}",
                f"upgrade it to {needed} or later: before, pods that are not elected depend on the webhook, too",
            )
        else:
            yield ok(cluster.title, f"Kubernetes {cluster.kubernetes}")
    own = _version(view.client)
    for cluster in _clusters(view):
        told = _version(cluster.agent)
        if told is not None and told != own:
            yield warn(
                cluster.title,
                f"its agent is version {cluster.agent}, this command {view.client}",
                "upgrade the older one, so that both know the same fields and annotations",
            )


def agents(view: View) -> Iterator[Finding]:
    """Check that one agent leads in each cluster and has published a ClusterSummary."""
    for cluster in _clusters(view):
        yield from _agent(cluster, view.now)


def _agent(cluster: ClusterView, now: datetime) -> Iterator[Finding]:
    if cluster.leases is not None:
        # Lease times are compared with the cluster's own clock if its skew is known.
        there = now + timedelta(seconds=cluster.skew or 0.0)
        fresh = [lease for lease in cluster.leases if any(there - at <= SILENT for at in renewals([lease]))]
        if not cluster.leases:
            yield fail(cluster.title, "no agent has ever led here", "install the chart, and see that its pods start")
            return
        if not fresh:
            last = max(renewals(cluster.leases), default=None)
            when = f"since {last:%Y-%m-%d %H:%M:%S} UTC" if last else "since ever"
            yield fail(
                cluster.title,
                f"its agent is silent {when}",
                "see why: kubectl get pods -A -l app.kubernetes.io/name=flotilla, then the log of the agent's",
            )
            return
        if len(fresh) > 1:
            where = ", ".join(sorted(lease.metadata.namespace for lease in fresh))
            yield fail(
                cluster.title,
                f"agents lead in {len(fresh)} namespaces ({where}): the chart is installed twice, or beside Admiralty",
                "uninstall all but one, with --no-hooks so that the pods of the other stay",
            )
            return
    if cluster.has_summary is False:
        yield fail(
            cluster.title,
            "it has no ClusterSummary, so that its size is not known",
            "see the log of its agent: without one the cluster gets no pods",
        )
    elif cluster.leases:
        by = f", version {cluster.agent}" if cluster.agent else ""
        yield ok(cluster.title, f"its agent leads and renews its lease{by}")


def clocks(view: View) -> Iterator[Finding]:
    """Check that the clocks of all clusters agree with each other and with this machine's."""
    known = [cluster for cluster in _clusters(view) if cluster.skew is not None]
    if not known:
        return
    skews = sorted(cluster.skew or 0.0 for cluster in known)
    middle = skews[len(skews) // 2]
    well = True
    for cluster in known:
        # With three or more clusters the median is taken as correct.
        off = (cluster.skew or 0.0) - (middle if len(known) > 2 else 0.0)
        if abs(off) <= SKEW_WARN:
            continue
        well = False
        than = "the other clusters'" if len(known) > 2 else "this machine's"
        what = f"its clock is {age(abs(off))} {'ahead of' if off > 0 else 'behind'} {than}"
        remedy = "synchronise the clocks (NTP): certificates and tokens are judged by them"
        yield (fail if abs(off) > SKEW_FAIL else warn)(cluster.title, what, remedy)
    if len(known) > 2 and abs(middle) > SKEW_WARN:
        well = False
        yield warn("this machine", f"its clock is {age(abs(middle))} off the clusters'", "synchronise it (NTP)")
    if well:
        yield ok(
            "clocks", f"{len(known)} {'cluster agrees' if len(known) == 1 else 'clusters agree'} with this machine"
        )


def definitions(view: View) -> Iterator[Finding]:
    """Check that all CRDs exist, are served, and have this version's schemas."""
    if view.crds is None:
        return
    wanted = {crd["metadata"]["name"]: crd for crd in crds()}
    well = True
    for name, crd in wanted.items():
        found = view.crds.get(name)
        if found is None:
            well = False
            # The kinds of Admiralty suffice for all that Admiralty's agent does.
            tell = warn if crd["spec"]["group"] == OWN_GROUP else fail
            yield tell(f"CRD {name}", "it is missing", "install the chart, or apply its files/crds")
            continue
        path = difference(crd["spec"], found.get("spec") or {})
        conditions = {each["type"]: each for each in (found.get("status") or {}).get("conditions") or ()}
        established = conditions.get("Established", {})
        if established.get("status") != "True":
            well = False
            why = established.get("message") or (conditions.get("NamesAccepted") or {}).get("message", "")
            yield fail(f"CRD {name}", f"it is not served: {why}", "remove what has the same names, then apply it again")
        elif path:
            well = False
            yield warn(
                f"CRD {name}",
                f"it is of another version: {path} differs",
                "apply the chart's files/crds of this version: Helm does not upgrade CRDs that others installed",
            )
    if well:
        yield ok("CRDs", f"all {len(wanted)} are those of version {view.client}")


def difference(wanted: Any, found: Any, path: str = "spec") -> str:
    """Return the path of the first field that differs from the wanted one, empty if none does.

    Extra fields are allowed.
    """
    if isinstance(wanted, Mapping):
        if not isinstance(found, Mapping):
            return path
        for key, value in wanted.items():
            if key not in found and value not in ({}, [], "", None):
                return f"{path}.{key}"
            if key in found and (at := difference(value, found[key], f"{path}.{key}")):
                return at
        return ""
    if isinstance(wanted, list):
        if not isinstance(found, list) or len(found) != len(wanted):
            return path
        places = (
            difference(one, other, f"{path}[{n}]") for n, (one, other) in enumerate(zip(wanted, found, strict=True))
        )
        return next((at for at in places if at), "")
    return "" if wanted == found else path


def _clusters(view: View) -> list[ClusterView]:
    """Yield this cluster and those of targets, each once: several Targets may name the same cluster."""
    found = {view.cluster.title: view.cluster}
    for target in view.targets:
        if target.cluster is not None:
            found.setdefault(target.cluster.title, target.cluster)
    return list(found.values())


def _version(text: str) -> Version | None:
    match = _VERSION.match(text)
    return (int(match[1]), int(match[2])) if match else None
