"""Deletion of copies in other clusters, which no agent will update again: part of `flotilla uninstall`.

Volume claims stay, because their data would be deleted with them.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from agent.api import names
from agent.api.kinds import (
    CONFIGMAPS,
    CONNECTORS,
    ENDPOINT_SLICES,
    INGRESSES,
    LISTENERS,
    NAMESPACES,
    NETWORK_POLICIES,
    PERSISTENT_VOLUMES,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICE_EXPORTS,
    SERVICES,
    TARGET_KINDS,
    Kind,
)
from agent.api.names.links import LABEL_LINK_OF, LABEL_SKUPPER
from agent.api.names.mcs import LABEL_DERIVED
from agent.cli.fleet.source_queries import wrong_cluster
from agent.clusters.target import State
from agent.drivers.exports import OURS
from agent.kube.client import Client
from agent.kube.discovery import Discovery
from agent.kube.errors import Conflict, Forbidden, KubeError, NotFound
from agent.kube.session import Session
from agent.kube.store import Object
from agent.model import addresses
from agent.model.addresses import NOT_WANTED
from agent.model.ingress import unmarked
from agent.model.placeholder_volume import is_stand_in
from agent.model.service import is_copy
from agent.targets.target import gather

Raw = dict[str, Any]
Say = Callable[[str], None]

COPIED = (INGRESSES, SERVICES, CONFIGMAPS, SECRETS, SERVICE_ACCOUNTS, ROLE_BINDINGS, ROLES, NETWORK_POLICIES)
SECRET_LABELS = (names.LABEL_INGRESS_SECRET, names.LABEL_TOKEN_OF)
"""Further labels that identify Secrets as copies."""
_TARGET_SECONDS = 60.0
"""Timeout for one target."""


async def withdraw(client: Client, say: Say, *, copies: bool) -> None:
    """Remove our fields from shared objects of this cluster and, with `copies`, delete the copies.

    Deletes copies that this cluster has in its targets, and copies that sources have in this cluster: their rights have
    ended. Calls `say` with targets that cannot be reached. Raises KubeError if this cluster does not answer.
    """
    await _release_originals(client)
    if not copies:
        return
    await _remove_copies(client)
    found = await client.list(NAMESPACES, fields="metadata.name=kube-system")
    uid = found[0]["metadata"]["uid"]
    targets = [target for kind in TARGET_KINDS for target in await _list(client, kind)]
    await asyncio.gather(*(_withdraw_from(client, target, uid, say) for target in targets))


async def _remove_copies(client: Client, namespace: str | None = None, cluster: str = "") -> None:
    """Delete the copies that one cluster (by its UID), or any, has in this one. Raises KubeError."""
    value = f"={cluster}" if cluster else ""
    for kind in COPIED:
        labels = (names.LABEL_PARENT_CLUSTER_UID, *(SECRET_LABELS if kind == SECRETS else ()))
        for label in labels:
            await _delete(client, kind, await _list(client, kind, namespace, f"{label}{value}"))


async def _release_originals(client: Client) -> None:
    """Release originals of all kinds but Services, which are restored before; delete objects made for links and
    exports.
    """
    exports = await Discovery(client).find_any(SERVICE_EXPORTS.group, SERVICE_EXPORTS.name) or SERVICE_EXPORTS
    await _delete(client, exports, await _list(client, exports, None, OURS))
    for label in (LABEL_LINK_OF, LABEL_DERIVED):
        await _delete(client, SERVICES, await _list(client, SERVICES, None, label))
    for kind in (LISTENERS, CONNECTORS, ENDPOINT_SLICES):
        await _delete(client, kind, await _list(client, kind, None, LABEL_SKUPPER))
    # Kubernetes keeps bound volumes until their claims have been deleted.
    volumes = await _list(client, PERSISTENT_VOLUMES, None, names.LABEL_STAND_IN)
    await _delete(client, PERSISTENT_VOLUMES, [volume for volume in volumes if is_stand_in(volume)])
    for ingress in await _list(client, INGRESSES):
        metadata = ingress["metadata"]
        annotations = metadata.get("annotations") or {}
        published = addresses.changes(ingress, NOT_WANTED, {})
        if (published or names.ANNOTATION_MARKS in annotations) and not is_copy(annotations):
            ours = unmarked(annotations) if names.ANNOTATION_MARKS in annotations else {}
            patch = {"metadata": {"annotations": {**ours, **published}}}
            with contextlib.suppress(NotFound):
                await client.patch(INGRESSES, metadata["name"], patch, metadata["namespace"])


async def _withdraw_from(client: Client, target: Raw, uid: str, say: Say) -> None:
    metadata = target["metadata"]
    title = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
    try:
        place = gather.reference(target)
        if place is None:
            return
        if wrong := wrong_cluster(target):
            raise gather.Problem(State.WRONG_CLUSTER, wrong)
        namespace, name = place.secret
        _, items = await client.list_raw(SECRETS, namespace, fields=f"metadata.name={name}")
        secret = Object(SECRETS, bytes(items[0])) if items else None
        connection = gather.connection(place, gather.kubeconfig(place, secret), plugins=False)
        async with asyncio.timeout(_TARGET_SECONDS), Session(connection) as session:
            await _remove_copies(Client(session), metadata.get("namespace"), uid)
    except (KubeError, gather.Problem, TimeoutError) as error:
        say(
            f"copies may be left in target {title}: {str(error) or 'no answer'}; delete there what has the label"
            f" {names.LABEL_PARENT_CLUSTER_UID}={uid}"
        )


async def _list(client: Client, kind: Kind, namespace: str | None = None, labels: str = "") -> list[Raw]:
    try:
        return await client.list(kind, namespace, labels=labels)
    except (NotFound, Forbidden):
        # The kind is not served, or we lack the right to read it and so have never written any.
        return []


async def _delete(client: Client, kind: Kind, objects: list[Raw]) -> None:
    for each in objects:
        metadata = each["metadata"]
        with contextlib.suppress(NotFound, Conflict):
            await client.delete(kind, metadata["name"], metadata.get("namespace"), uid=metadata["uid"])
