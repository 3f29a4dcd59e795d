"""Restoration of Services in a cluster whose agents have stopped: part of `flotilla uninstall`."""

import contextlib
from collections.abc import Callable
from typing import Any

from agent.api import names
from agent.api.conditions import without_condition
from agent.api.kinds import SERVICES
from agent.api.names.links import LABEL_FEDERATED, LABEL_LINKERD
from agent.clusters.copies.field_owners import keep_owners
from agent.kube.client import Client
from agent.kube.errors import Conflict, NotFound
from agent.kube.store import Object
from agent.model import addresses
from agent.model.ac3 import sharing
from agent.model.addresses import NOT_WANTED
from agent.model.diff import merge_patch
from agent.model.pattern import InvalidPattern
from agent.model.service import InvalidService, is_copy
from agent.model.servicemarks import restored
from agent.services.copies.controller import CONDITION

MIRRORS = f"{names.LABEL_SLICE_MANAGED_BY}={names.SLICE_MANAGER}"
"""EndpointSlices with endpoints of other clusters: no agent would remove endpoints that have ended."""
_TRIES = 5


async def restore_services(client: Client, say: Callable[[str], None]) -> None:
    """Restore selectors, and remove our fields from Services; call `say` with unreadable Services.

    Raises Conflict if another writer keeps changing one.
    """
    _, items = await client.list_raw(SERVICES)
    for item in items:
        service = Object(SERVICES, bytes(item))
        with contextlib.suppress(NotFound):
            await _restore(client, service, say)
            await _unsay(client, service)


async def _restore(client: Client, service: Object, say: Callable[[str], None]) -> None:
    for left in reversed(range(_TRIES)):
        try:
            patch = _undone(service)
        except (InvalidService, InvalidPattern) as error:
            say(f"Service {service.namespace}/{service.name} is left as it is: {error}")
            return
        if not patch:
            return
        try:
            raw = await client.patch_raw(SERVICES, service.name, patch, service.namespace)
        except Conflict:
            if not left:
                raise
            service = Object(SERVICES, await client.get_raw(SERVICES, service.name, service.namespace))
            continue
        if service.applied and "spec" in patch:
            await keep_owners(client, service, raw)
        return


async def _unsay(client: Client, service: Object) -> None:
    """Remove the condition about copies."""
    if CONDITION.encode() not in service.raw:
        return
    old = (service.decode().get("status") or {}).get("conditions") or []
    rest = without_condition(old, CONDITION)
    if rest != old:
        body = {"status": {"conditions": rest}}
        await client.patch_raw(SERVICES, service.name, body, service.namespace, sub="status")


def _undone(service: Object) -> dict[str, Any]:
    """Return the merge patch; {} if the Service has no fields of ours.

    Copies belong to another cluster, which deletes them with their originals.
    """
    if service.deleting or is_copy(service.annotations):
        return {}
    live = service.decode()
    ours = sharing(service.annotations, wanted=False)
    kept = {key: value for key, value in service.annotations.items() if key not in ours}
    wanted = restored({**live, "metadata": {**live["metadata"], "annotations": kept}})
    metadata = wanted["metadata"]
    added = {names.LABEL_GLOBAL, *((LABEL_LINKERD, LABEL_FEDERATED) if LABEL_LINKERD in service.labels else ())}
    labels = {key: value for key, value in (metadata["labels"] or {}).items() if key not in added}
    published = addresses.changes(live, NOT_WANTED, {})
    annotations = {key: value for key, value in (metadata["annotations"] or {}).items() if key not in published}
    metadata = {**metadata, "labels": labels or None, "annotations": annotations or None}
    patch = merge_patch(live, {**wanted, "metadata": metadata})
    if patch:
        patch.setdefault("metadata", {})["resourceVersion"] = service.version
    return patch
