"""A target that follows the wire contract (4.2, 4.5 and 14) exactly, once a second, and does nothing beyond it.

It gives keys under `multicluster/` no meaning: it treats them as foreign annotations.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

from agent.api.kinds import CHAPERONS, CLUSTER_SUMMARIES, NODES, PODS
from agent.kube.client import Client
from agent.kube.config import Connection, StaticAuth, load
from agent.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from agent.kube.session import Session
from agent.model.summary import summarise
from tests.background import background
from tests.e2e.fleet import Fleet
from tests.kube.relay import trusting
from tests.peers.contract import (
    ALLOWED,
    CANDIDATE,
    MISSING,
    PROVIDER,
    RESERVED,
    agents_token,
    annotation,
    bind,
    foreign,
    own,
)

Raw = dict[str, Any]

POLL_SECONDS = 1.0
MISSING_LIMIT = timedelta(minutes=1)
HOLD = timedelta(seconds=30)

log = logging.getLogger(__name__)


class TargetPeer:
    """Chaperon controller, candidate scheduler and summary of one cluster."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._reserved: dict[str, datetime] = {}

    @classmethod
    @contextlib.asynccontextmanager
    async def serving(cls, fleet: Fleet, cluster: str) -> AsyncIterator["TargetPeer"]:
        """Run a peer with the permissions of Admiralty's agent. Leaving ends it, and fails if it has ended early."""
        connection = load(str(fleet.sandbox[cluster].kubeconfig))
        token = await agents_token(fleet.clients[cluster], fleet.home)
        theirs = Connection(connection.server, tls=trusting(connection), auth=StaticAuth(f"Bearer {token}"))
        async with Session(theirs, name=cluster) as session:
            peer = cls(Client(session))
            async with background(peer.run()):
                yield peer

    async def run(self) -> None:
        """Reconcile all objects once a second until cancelled."""
        while True:
            await self._publish()
            for chaperon in await self._client.list(CHAPERONS):
                with contextlib.suppress(Conflict, NotFound):
                    await self._serve(chaperon)
            for pod in await self._client.list(PODS, fields="spec.nodeName="):
                if pod["spec"]["schedulerName"] == CANDIDATE and "deletionTimestamp" not in pod["metadata"]:
                    with contextlib.suppress(Conflict, NotFound):
                        await self._schedule(pod)
            await asyncio.sleep(POLL_SECONDS)

    async def _serve(self, chaperon: Raw) -> None:
        """Section 4.5, one chaperon."""
        metadata = chaperon["metadata"]
        if "deletionTimestamp" in metadata:
            return
        name, namespace = metadata["name"], metadata["namespace"]
        try:
            pod = await self._client.get(PODS, name, namespace)
        except NotFound:
            await self._without_pod(chaperon)
            return
        if not any(owner["uid"] == metadata["uid"] for owner in pod["metadata"].get("ownerReferences") or ()):
            log.warning("pod %s/%s already exists and is not managed by PodChaperon", namespace, name)
            return
        if MISSING in own(chaperon):
            chaperon = await self._client.patch(CHAPERONS, name, annotation(MISSING, None), namespace)
        if chaperon.get("status") != pod.get("status"):
            chaperon = await self._client.update(CHAPERONS, chaperon | {"status": pod["status"]}, sub="status")
        if foreign(chaperon) != foreign(pod):
            chaperon["metadata"]["annotations"] = own(chaperon) | foreign(pod)
            await self._client.update(CHAPERONS, chaperon)

    async def _without_pod(self, chaperon: Raw) -> None:
        metadata = chaperon["metadata"]
        since = own(chaperon).get(MISSING)
        if (chaperon.get("status") or {}).get("phase"):
            if since is None:
                now = datetime.now(UTC).isoformat(timespec="seconds")
                await self._client.patch(CHAPERONS, metadata["name"], annotation(MISSING, now), metadata["namespace"])
                return
            overdue = datetime.now(UTC) - datetime.fromisoformat(since) > MISSING_LIMIT
            if not overdue or chaperon["spec"].get("restartPolicy", "Always") != "Always":
                return
        with contextlib.suppress(AlreadyExists):
            await self._client.create(PODS, _pod(chaperon))

    async def _schedule(self, pod: Raw) -> None:
        """Section 4.2, S4 to S7 and S12, for one candidate: at most one step per reconciliation."""
        metadata = pod["metadata"]
        name, namespace = metadata["name"], metadata["namespace"]
        now = datetime.now(UTC)
        since = self._reserved.get(metadata["uid"])
        if since is None or now - since > HOLD:
            await self._client.patch(CHAPERONS, name, annotation(RESERVED, None), namespace)
            if await self._node() is None:
                return
            await self._client.patch(CHAPERONS, name, annotation(RESERVED, "true"), namespace)
            self._reserved[metadata["uid"]] = now
        elif ALLOWED in own(await self._client.get(CHAPERONS, name, namespace)):
            node = await self._node()
            if node is not None:
                await bind(self._client, pod, node)

    async def _node(self) -> str | None:
        """Return a node of the cluster itself; this peer ignores its free capacity."""
        nodes = await self._client.list(NODES, labels=f"{PROVIDER}!=admiralty")
        return next((node["metadata"]["name"] for node in nodes), None)

    async def _publish(self) -> None:
        """Section 8.3: sums and common labels; the replacement drops existing annotations."""
        wanted = summarise(await self._client.list(NODES, labels=f"{PROVIDER}!=admiralty"))
        metadata: Raw = {"name": "singleton", "labels": wanted["metadata"]["labels"]}
        try:
            current = await self._client.get(CLUSTER_SUMMARIES, "singleton")
        except NotFound:
            await self._client.create(CLUSTER_SUMMARIES, wanted | {"metadata": metadata})
            return
        there = current["metadata"]
        same = all(current.get(field) == wanted[field] for field in ("capacity", "allocatable"))
        if same and (there.get("labels") or {}) == metadata["labels"] and not there.get("annotations"):
            return
        with contextlib.suppress(KubeError):
            version = {"resourceVersion": there["resourceVersion"]}
            await self._client.update(CLUSTER_SUMMARIES, wanted | {"metadata": metadata | version})


def _pod(chaperon: Raw) -> Raw:
    """The chaperon's exact name, labels, annotations and spec, with a controller reference."""
    metadata = chaperon["metadata"]
    owner = {
        "apiVersion": CHAPERONS.api_version,
        "kind": CHAPERONS.name,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    copied = {key: metadata[key] for key in ("name", "namespace", "labels", "annotations") if key in metadata}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": copied | {"ownerReferences": [owner]},
        "spec": chaperon["spec"],
    }
