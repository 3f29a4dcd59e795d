"""Reads the objects that sources have created in a cluster, and the heartbeats of the sources."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec

from agent.api import names
from agent.api.kinds import CHAPERONS, LEASES, NAMESPACES, PERSISTENT_VOLUME_CLAIMS, SECRETS, Kind
from agent.base.clock import parse
from agent.cli.orphaned.lines import Owned
from agent.cli.remove_copies import COPIED, SECRET_LABELS
from agent.kube.client import METADATA_LIST, Client
from agent.kube.errors import NotFound
from agent.model import heartbeats
from agent.model.heartbeats import Sign

Raw = dict[str, Any]

_decoder = msgspec.json.Decoder(Raw)


async def read_owned(client: Client) -> list[Owned]:
    """Read all objects whose labels name their source; those of Admiralty's agents have no such labels.

    Raises KubeError.
    """
    found: list[Owned] = []
    for kind, label in labels():
        found += [_owned(kind, metadata, label) async for metadata in _metadata(client, kind, label)]
    return found


def labels() -> Iterator[tuple[Kind, str]]:
    """Yield the kinds that sources create, each with the label that has the source's UID."""
    for kind in (CHAPERONS, *COPIED, PERSISTENT_VOLUME_CLAIMS):
        yield kind, names.LABEL_PARENT_CLUSTER_UID
    for label in SECRET_LABELS:
        yield SECRETS, label


async def read_signs(client: Client) -> dict[str, Sign]:
    """Read the latest heartbeat of each source, by UID. Raises KubeError."""
    latest: dict[str, Sign] = {}
    for lease in await read_leases(client):
        for uid, sign in heartbeats.read(lease["metadata"].get("annotations")).items():
            if uid not in latest or sign.seen > latest[uid].seen:
                latest[uid] = sign
    return latest


async def read_leases(client: Client) -> list[Raw]:
    """Read the Leases that contain heartbeats of sources. Raises KubeError."""
    return await client.list(LEASES, fields=f"metadata.name={names.LEASE_SOURCES}")


async def own_uid(client: Client) -> str:
    """Return the UID that this cluster has as a source. Raises KubeError."""
    return str((await client.get(NAMESPACES, "kube-system"))["metadata"]["uid"])


async def _metadata(client: Client, kind: Kind, label: str) -> AsyncIterator[Raw]:
    try:
        async for page in client.pages(kind, labels=label, accept=METADATA_LIST):
            for item in page.items:
                yield _decoder.decode(item)["metadata"]
    except NotFound:
        # The cluster does not serve this kind.
        return


def _owned(kind: Kind, metadata: Raw, label: str) -> Owned:
    given = metadata.get("labels") or {}
    created = metadata.get("creationTimestamp")
    return Owned(
        kind=kind.name,
        namespace=metadata["namespace"],
        name=metadata["name"],
        source=given[label],
        source_name=given.get(names.LABEL_PARENT_CLUSTER_NAME, ""),
        created=parse(created) if created else None,
    )
