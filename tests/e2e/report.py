"""Report the state of a namespace in all clusters, for the message of a test that timed out."""

from typing import TYPE_CHECKING, Any

from agent.api.kinds import (
    CHAPERONS,
    CLUSTER_TARGETS,
    EVENTS,
    PODS,
    ROLE_BINDINGS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SOURCES,
    TARGETS,
    Kind,
)
from agent.kube.client import Client
from agent.kube.errors import KubeError

if TYPE_CHECKING:
    from tests.e2e.fleet import Fleet

Raw = dict[str, Any]

_KINDS = (TARGETS, CLUSTER_TARGETS, CHAPERONS, PODS)
_CREDENTIALS = (SECRETS, SOURCES, SERVICE_ACCOUNTS, ROLE_BINDINGS)
_LOG_LINES = 12
_OBJECTS = 15


async def report(fleet: "Fleet", namespace: str) -> str:
    """Return objects with their conditions, events, and the end of agents' and webhooks' logs."""
    lines = []
    for name, client in fleet.clients.items():
        lines.append(f"--- cluster {name}")
        for kind in (*_KINDS, *(_CREDENTIALS if namespace else ())):
            lines += await _objects(client, kind, namespace)
        lines += await _events(client, namespace)
        for process in ("agent", "webhook"):
            lines.append(f"{process}.log:")
            lines += [f"    {line}" for line in _log(fleet, name, process, namespace)]
    return "\n".join(lines)


async def _objects(client: Client, kind: Kind, namespace: str) -> list[str]:
    try:
        objects = await client.list(kind, namespace if kind.namespaced else None)
    except KubeError as error:
        return [f"  {kind}: {error}"]
    shown = [f"  {kind.name} {_line(each)}" for each in objects[:_OBJECTS]]
    more = len(objects) - len(shown)
    return [*shown, f"  ... and {more} more"] if more else shown


def _line(obj: Raw) -> str:
    metadata, status = obj["metadata"], obj.get("status") or {}
    parts = [metadata["name"], status.get("phase", ""), obj.get("spec", {}).get("nodeName", "")]
    if "deletionTimestamp" in metadata:
        parts.append(f"terminating, finalizers {metadata.get('finalizers')}")
    parts += [
        f"{each['type']}={each['status']} {each.get('reason', '')} {each.get('message', '')}".strip()
        for each in status.get("conditions") or ()
        if each["status"] != "True"
    ]
    return " | ".join(part for part in parts if part)


async def _events(client: Client, namespace: str) -> list[str]:
    try:
        events = await client.list(EVENTS, namespace, fields="type=Warning")
    except KubeError as error:
        return [f"  events: {error}"]
    return [
        f"  Event {each['involvedObject']['kind']} {each['involvedObject'].get('name')}:"
        f" {each.get('reason')} {each.get('message')}"
        for each in events[-_OBJECTS:]
    ]


def _log(fleet: "Fleet", cluster: str, process: str, namespace: str) -> list[str]:
    """Return the last lines about the namespace, then the last lines of all."""
    lines = fleet.sandbox[cluster].log(process).read_text(errors="replace").splitlines()
    about = [line for line in lines if namespace in line] if namespace else []
    return [*about[-_LOG_LINES:], "...", *lines[-_LOG_LINES:]]
