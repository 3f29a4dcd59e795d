"""Requirements that a cluster has to meet before anything is written to it."""

import asyncio
import contextlib
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec

from agent.api import names
from agent.api.kinds import CLUSTER_SUMMARIES, LEASES, NAMESPACES, TARGETS, Kind
from agent.base.clock import SystemClock, parse
from agent.cli.joining.arguments import missing_rights
from agent.cli.joining.contexts import Side
from agent.cli.joining.manifests import Names
from agent.cli.options import Failed
from agent.clusters.health.agent_health import Lease
from agent.kube.errors import Forbidden, NotFound
from agent.kube.reviews import may_we
from agent.model.namespaces import is_enabled

OLDEST = (1, 30)
"""Oldest Kubernetes version that the agent supports (ruling 15)."""
_FRESH = timedelta(seconds=60)
"""Agents renew their lease every few seconds; the rest allows for two clocks that differ."""
_PULSE_SECONDS = 8.0
_TOLD_SECONDS = 3.0
_POLL_SECONDS = 1.0


class Right(NamedTuple):
    """Right that the user needs, and its reason."""

    kind: Kind
    verb: str
    namespace: str | None
    why: str
    sub: str = ""

    def __str__(self) -> str:
        where = f" in namespace {self.namespace}" if self.namespace and self.kind.namespaced else ""
        return f"{self.verb} {self.kind}{'/' + self.sub if self.sub else ''}{where}"


@dataclass(frozen=True)
class Known:
    """Facts found about a cluster."""

    uid: str = ""
    """UID of its kube-system namespace; empty if the user may not read that."""
    home: str = ""
    """Namespace of its agent, empty if none is visible."""
    notes: list[str] = field(default_factory=list)


async def examine(side: Side, kind: Kind, namespace: str, rights: Sequence[Right], *, agentless: bool) -> Known:
    """Check a cluster in which objects of a kind will be made. An empty namespace is that of its agent.

    Changes nothing. Raises Failed, KubeError.
    """
    await _version(side)
    notes: list[str] = []
    await _served(side, kind, namespace)
    uid, home = await asyncio.gather(_uid(side, notes), _agent(side, notes, agentless=agentless))
    namespace = namespace or home
    if not namespace:
        raise Failed(f"the namespace of the agent in {side.title} cannot be told: name one with -n")
    await _namespace(side, namespace, notes, electing=kind == TARGETS)
    await _rights(side, [right._replace(namespace=right.namespace or namespace) for right in rights])
    return Known(uid, namespace, notes)


async def _version(side: Side) -> None:
    answer = msgspec.json.decode(await side.client.session.request("GET", "/version", resource="version"))
    why = too_old(str(answer.get("gitVersion", "")))
    if why:
        raise Failed(f"{side.title} is {why}")


def too_old(version: str) -> str:
    """Return why a Kubernetes version is not supported, empty if it is. An unreadable version is accepted."""
    found = re.match(r"v(\d+)\.(\d+)", version)
    if found is None or (int(found[1]), int(found[2])) >= OLDEST:
        return ""
    return f"Kubernetes {version}, and Flotilla needs {'.'.join(map(str, OLDEST))} or newer: upgrade it"


async def _served(side: Side, kind: Kind, namespace: str) -> None:
    try:
        await side.client.session.request(
            "GET", kind.path(namespace or None), params={"limit": "1"}, resource=kind.plural
        )
    except NotFound:
        raise Failed(
            f"{side.title} does not serve {kind}: install the chart there (helm --kube-context {side.context} install"
            " flotilla charts/flotilla), or choose another context"
        ) from None


async def _uid(side: Side, notes: list[str]) -> str:
    try:
        return str((await side.client.get(NAMESPACES, "kube-system"))["metadata"]["uid"])
    except Forbidden:
        notes.append(f"{side.title}: which cluster this is cannot be told, for you may not get namespace kube-system")
        return ""


async def _agent(side: Side, notes: list[str], *, agentless: bool) -> str:
    """Return the namespace of the agent that leads in the cluster; empty if the user may not see it.

    Raises Failed if no agent leads.
    """
    remedy = (
        f"install the chart there (helm --kube-context {side.context} install flotilla charts/flotilla), or, if"
        " that is what you want, --without-agent"
    )
    try:
        home = await _leader(side)
        told = bool(home) and await _told(side)
    except Forbidden as error:
        notes.append(f"{side.title}: whether an agent runs was not checked: {error}")
        return ""
    if home and told:
        return home
    why = (
        f"the agent of {side.title} is not one of Flotilla, but Admiralty's, by its lease {names.LEASE_CONTROLLERS}"
        if home
        else f"{side.title} has the CRDs of Admiralty or Flotilla, but no agent of Flotilla is at work there"
    )
    if not agentless:
        raise Failed(f"{why}: {remedy}")
    notes.append(why)
    return home


async def _leader(side: Side) -> str:
    """Return the namespace of the lease that is being renewed, empty if there is none."""
    deadline = time.monotonic() + _PULSE_SECONDS
    before: dict[str, Lease] = {}
    while True:
        _, items = await side.client.list_raw(LEASES, fields=f"metadata.name={names.LEASE_CONTROLLERS}")
        leases = {
            lease.metadata.namespace: lease for lease in (msgspec.json.decode(each, type=Lease) for each in items)
        }
        for namespace, lease in leases.items():
            renewed = lease.spec.renew_time
            if not lease.spec.holder_identity or not renewed:
                continue
            # A lease is fresh by its time, or, if the clocks differ, because it changes.
            moved = namespace in before and before[namespace] != lease
            if moved or abs(SystemClock().now() - parse(renewed)) < _FRESH:
                return namespace
        if not leases or time.monotonic() > deadline:
            return ""
        before = leases
        await asyncio.sleep(_POLL_SECONDS)


async def _told(side: Side) -> bool:
    """Wait until a Flotilla agent has published its version (Admiralty's publishes none); False after a timeout."""
    deadline = time.monotonic() + _TOLD_SECONDS
    while True:
        with contextlib.suppress(NotFound):
            summary = await side.client.get(CLUSTER_SUMMARIES, names.SUMMARY_NAME)
            if names.ANNOTATION_AGENT_VERSION in (summary["metadata"].get("annotations") or {}):
                return True
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(_POLL_SECONDS)


async def _namespace(side: Side, name: str, notes: list[str], *, electing: bool) -> None:
    try:
        found = await side.client.get(NAMESPACES, name)
    except NotFound:
        raise Failed(
            f"there is no namespace {name} in {side.title}: kubectl --context {side.context} create namespace {name}"
        ) from None
    except Forbidden as error:
        notes.append(f"{side.title}: whether namespace {name} is there was not checked: {error}")
        return
    if found["metadata"].get("deletionTimestamp"):
        raise Failed(f"namespace {name} of {side.title} is being deleted: wait until it is gone, and create it again")
    labels = found["metadata"].get("labels") or {}
    if electing and labels.get(names.LABEL_ENABLED) != names.ENABLED_VALUE:
        notes.append(
            f"no pods of namespace {name} in {side.title} can be elected before it is labelled: kubectl --context"
            f" {side.context} label namespace {name} {names.LABEL_ENABLED}={names.ENABLED_VALUE}"
        )


async def keep_accounts_apart(target: Side, others: Sequence[Side], found: Names, notes: list[str]) -> None:
    """Check that no pods are elected in the namespace of a ClusterSource's account, in the target or other clusters.

    A user who creates pods there could have them run as that account, with rights in all namespaces. If the
    ClusterSource exists already, this is only a note: the target's agent refuses such pods. Raises Failed.
    """
    namespace, kind = found.target_namespace, found.source_kind
    exists = await _find(target, kind, found.source, notes) is not None
    for side in (target, *others):
        labels = ((await _find(side, NAMESPACES, namespace, notes)) or {"metadata": {}})["metadata"].get("labels")
        if not is_enabled(labels):
            continue
        why = (
            f"pods of namespace {namespace} in {side.title} are elected, and whoever creates them could name"
            f" ServiceAccount {namespace}/{found.source} of {target.title}, which gets rights in all namespaces: choose"
            f" another namespace, -n, or take the label away (kubectl --context {side.context} label namespace"
            f" {namespace} {names.LABEL_ENABLED}-)"
        )
        if not exists:
            raise Failed(why)
        notes.append(why)


async def _find(side: Side, kind: Kind, name: str, notes: list[str]) -> dict[str, Any] | None:
    """Read a cluster-scoped object; None if it does not exist, or, with a note, if forbidden."""
    try:
        return await side.client.get(kind, name)
    except NotFound:
        return None
    except Forbidden as error:
        notes.append(f"{side.title}: whether pods may run as the source's account was not checked: {error}")
        return None


async def _rights(side: Side, rights: Sequence[Right]) -> None:
    allowed = await asyncio.gather(*(may(side, right) for right in rights))
    denied = {str(right): right.why for right, yes in zip(rights, allowed, strict=True) if not yes}
    if denied:
        raise Failed(missing_rights(side.title, denied))


async def may(side: Side, right: Right) -> bool:
    """Return True if the user has a right."""
    attributes = {
        "group": right.kind.group,
        "resource": right.kind.plural,
        "subresource": right.sub,
        "verb": right.verb,
        "namespace": (right.namespace or "") if right.kind.namespaced else "",
    }
    return await may_we(side.client, attributes)
