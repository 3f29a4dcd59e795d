"""Members of a hub: their requests, acceptance, rejection and removal, as a person decides them."""

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from agent.api.conditions import condition_of, is_true
from agent.api.kinds import CERTIFICATE_REQUESTS, MANAGED_CLUSTERS, NAMESPACES
from agent.api.names.hub import ABANDON, ACCEPTED, DELETING, JOINED, MEMBER_USER
from agent.api.names.ocm import LABEL_CLUSTER_NAME, OURS
from agent.base.clock import SystemClock
from agent.cli.hubs.asked import Asked, chosen, requests
from agent.cli.joining.objects import until
from agent.cli.options import Failed
from agent.hub.approval import decided
from agent.hub.clusters import foreign_namespace, only_user
from agent.hub.identities import is_pending
from agent.kube.client import Client
from agent.kube.errors import AlreadyExists, Conflict, NotFound

Raw = dict[str, Any]
Say = Callable[[str], None]

T = TypeVar("T")


class Members:
    """Verbs about members."""

    def __init__(self, client: Client, seconds: float, say: Say) -> None:
        """:param seconds: timeout of each wait
        :param say: called with each reason to wait, once
        """
        self._client = client
        self._seconds = seconds
        self._say = say
        self._reported: set[str] = set()

    async def accept(self, name: str, key: str, *, replace: bool) -> Asked:
        """Accept a cluster and approve one request of its agent, which alone has the rights from then on.

        Raises Failed, KubeError.
        """
        waits = f"waiting for a certificate request of {name}: see that its agent runs and reaches this hub"
        asked = await self._until(lambda: self._request(name, key), waits)
        cluster = await self._cluster(name)
        if cluster is not None and OURS in (cluster["metadata"].get("labels") or {}):
            raise Failed(f"ManagedCluster {name} belongs to a Target of this cluster: let it join by another name")
        if cluster is not None and not replace:
            self._check_kept(cluster)
        if cluster is not None and self._has_joined(cluster) and not (key or replace):
            raise Failed(
                f"{name} has joined already: if its agent has lost its certificate, --key {asked.key}; if another"
                " cluster replaces it, --replace, which deletes the former member with its works first"
            )
        labels: Raw = {}
        if replace and cluster is not None:
            if only_user(cluster) == asked.user:
                raise Failed(f"the new agent has the same ID as the former, {asked.user}: have it take another one")
            labels = cluster["metadata"].get("labels") or {}
            await self.remove(name)
            cluster = None
        await self._check_namespace(name)
        await self._admit(name, cluster, labels, asked.user)
        await self._until(lambda: self._accepted(name), f"waiting for the hub's agent to accept {name} (agent --hub)")
        await self._decide(asked, "Approved", "FlotillaAccept", "accepted by flotilla hub accept")
        return asked

    async def reject(self, name: str, key: str) -> list[str]:
        """Deny the waiting requests of a cluster, or the one with a key, and the cluster.

        Return a line for each change.
        """
        done = []
        for each in await requests(self._client, name):
            if each.is_decided or not each.key.startswith(key):
                continue
            await self._decide(each, "Denied", "FlotillaReject", "rejected by flotilla hub reject")
            done.append(f"request {each.name} of {each.requester} is denied")
        cluster = await self._cluster(name)
        if cluster is not None and not key and (cluster.get("spec") or {}).get("hubAcceptsClient"):
            await self._client.patch(MANAGED_CLUSTERS, name, {"spec": {"hubAcceptsClient": False}})
            done.append(f"{name} is no longer accepted: its agent keeps its works until none is left")
        if not done:
            raise Failed(f"nothing to reject: {name} has no waiting request" + ("" if key else " and is not accepted"))
        return done

    async def remove(self, name: str, *, abandon: bool = False) -> None:
        """Delete a member, and wait until its agent has cleaned up. Raises Failed, KubeError."""
        cluster = await self._cluster(name)
        if cluster is None:
            raise Failed(f"there is no ManagedCluster {name}")
        if OURS in (cluster["metadata"].get("labels") or {}):
            raise Failed(f"ManagedCluster {name} belongs to a Target: flotilla leave")
        if abandon:
            body = {"metadata": {"annotations": {ABANDON: "true"}}}
            await self._client.patch(MANAGED_CLUSTERS, name, body)
        try:
            await self._client.delete(MANAGED_CLUSTERS, name, uid=cluster["metadata"]["uid"])
        except (NotFound, Conflict):
            return
        await self._until(lambda: self._is_gone(name, cluster["metadata"]["uid"]), f"waiting until {name} is gone")

    async def _request(self, name: str, key: str) -> Asked | None:
        return chosen(await requests(self._client, name), name, key)

    async def _cluster(self, name: str) -> Raw | None:
        try:
            return await self._client.get(MANAGED_CLUSTERS, name)
        except NotFound:
            return None

    @staticmethod
    def _has_joined(cluster: Raw) -> bool:
        conditions = (cluster.get("status") or {}).get("conditions")
        return is_true(conditions, ACCEPTED) and is_true(conditions, JOINED)

    async def _check_namespace(self, name: str) -> None:
        """Raise Failed if there is a namespace of this name that is not for this cluster."""
        try:
            namespace = await self._client.get(NAMESPACES, name)
        except NotFound:
            return
        if (namespace["metadata"].get("labels") or {}).get(LABEL_CLUSTER_NAME) != name:
            raise Failed(foreign_namespace(name))

    async def _admit(self, name: str, cluster: Raw | None, labels: Raw, user: str) -> None:
        """Accept a cluster, and give its rights to one user alone."""
        body: Raw = {"metadata": {"annotations": {MEMBER_USER: user}}, "spec": {"hubAcceptsClient": True}}
        if cluster is None:
            head = {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": MANAGED_CLUSTERS.name}
            metadata = {**body["metadata"], "name": name, "labels": labels}
            with contextlib.suppress(AlreadyExists):
                await self._client.create(MANAGED_CLUSTERS, {**head, **body, "metadata": metadata})
                return
        await self._client.patch(MANAGED_CLUSTERS, name, body)

    @staticmethod
    def _check_kept(cluster: Raw) -> None:
        """Raise Failed if a cluster is being deleted: its agent would get a certificate without rights."""
        name = cluster["metadata"]["name"]
        if "deletionTimestamp" in cluster["metadata"]:
            raise Failed(f"ManagedCluster {name} is being deleted: wait until it is gone (flotilla hub remove {name})")

    async def _accepted(self, name: str) -> bool:
        cluster = await self._cluster(name)
        if cluster is not None:
            self._check_kept(cluster)
        told = condition_of(cluster or {}, ACCEPTED) or {}
        if told.get("reason") == "Error":
            self._report(f"{name} is not accepted yet: {told['message']}")
        return bool(told.get("status") == "True")

    async def _is_gone(self, name: str, uid: str) -> bool:
        cluster = await self._cluster(name)
        if cluster is None or cluster["metadata"]["uid"] != uid:
            return True
        told = condition_of(cluster, DELETING)
        if told is not None and told["status"] == "False":
            self._report(f"{name} is not gone yet: {told['message']}")
        return False

    async def _decide(self, asked: Asked, type: str, reason: str, message: str) -> None:
        """Approve or deny a request, unless another one has its name by now. Raises Failed, KubeError."""
        found = await self._client.get(CERTIFICATE_REQUESTS, asked.name)
        if found["metadata"]["uid"] != asked.uid:
            raise Failed(
                f"request {asked.name} has been replaced by another one: flotilla hub requests {asked.cluster}"
            )
        if is_pending(found):
            body = decided(found, type, reason, message, SystemClock().now())
            await self._client.update(CERTIFICATE_REQUESTS, body, sub="approval")

    async def _until(self, probe: Callable[[], Awaitable[T | None]], waits: str) -> T:
        """Return the result of a probe once it is true. Raises Failed after the timeout."""

        async def asked() -> T | None:
            found = await probe()
            if not found:
                self._report(waits)
            return found

        return await until(asked, self._seconds, lambda: f"not within {self._seconds:g} s: {waits}")

    def _report(self, line: str) -> None:
        if line not in self._reported:
            self._reported.add(line)
            self._say(line)
