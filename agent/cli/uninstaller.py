"""Stops agents and webhooks in a cluster, and deletes the objects that they created (ruling 13)."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable
from enum import StrEnum
from typing import Any

from agent.api import names
from agent.api.kinds import (
    CHAPERONS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_SOURCES,
    CLUSTER_SUMMARIES,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    GATEWAY_PEERS,
    LEASES,
    MULTI_CLUSTER_NETWORKS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    PODS,
    ROLE_BINDINGS,
    SCHEDULING_MANIFESTS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICE_LINKS,
    SOURCES,
    TARGET_KINDS,
    Kind,
)
from agent.api.names import p2code
from agent.api.names.ac3 import LABEL_NETWORK_UID
from agent.api.names.links import GATEWAY_SECRET
from agent.api.ownroles import CONFIGURATION, WEBHOOK_SECRET
from agent.cli.remove_copies import withdraw
from agent.cli.remove_finalizers import release_all
from agent.cli.restore_services import MIRRORS, restore_services
from agent.kube.client import Client
from agent.kube.errors import Conflict, NotFound
from agent.model.abridged import abridged
from agent.model.podstate import PROXY_PODS
from agent.model.servicelinks import is_made

Raw = dict[str, Any]

DEFAULT_SECONDS = 300.0
_POLL_SECONDS = 0.5
_SHOWN = 5
_DELETIONS = 16
"""Concurrent deletions."""


class Policy(StrEnum):
    """Action while pods of this cluster run in targets, or pods of sources in this cluster."""

    REFUSE = "refuse"
    DELETE = "delete"
    ORPHAN = "orphan"


class Refused(Exception):
    """Uninstalling would end or strand pods; the message lists them and the remedies."""


class Uninstaller:
    """Uninstalls the agents that Deployments of `release` run in `namespace`, and the objects that they created.

    :param seconds: time that pods may take to end
    :param say: called with every step
    """

    def __init__(
        self,
        client: Client,
        policy: Policy,
        namespace: str,
        release: str,
        seconds: float = DEFAULT_SECONDS,
        say: Callable[[str], None] = print,
    ) -> None:
        self._client = client
        self._policy = policy
        self._namespace = namespace
        self._release = release
        self._seconds = seconds
        self._say = say

    async def run(self) -> None:
        """Uninstall. Raises Refused, without any change under policy `refuse`; KubeError."""
        self._policy = await self._chosen()
        proxies, chaperons = await self._proxies(), await self._list(CHAPERONS)
        if (proxies or chaperons) and self._policy is Policy.REFUSE:
            raise Refused(self._refusal(proxies, chaperons))
        if proxies and self._policy is Policy.DELETE:
            await self._delete_proxies(proxies)
        stopped = await self._stop("webhook")
        if self._policy is Policy.REFUSE and (proxies := await self._proxies()):
            # These were created between the first list and the end of the webhook; no more can follow.
            await self._scale(stopped)
            raise Refused(self._refusal(proxies, []))
        await self._stop("agent")
        await self._stop("candidates")
        if chaperons and self._policy is Policy.DELETE:
            # The agent has stopped: sources consider this cluster lost, and choose other targets.
            await self._delete_all(CHAPERONS, chaperons, propagation=True)
            await self._gone("delegates of other clusters", lambda: self._left(CHAPERONS, chaperons))
        await self._clean()
        await withdraw(self._client, self._say, copies=self._policy is not Policy.ORPHAN)
        await self._tell_of_accounts()

    async def _chosen(self) -> Policy:
        """Return the policy, which the user may set on the agent's Deployment.

        Helm cannot upgrade a release whose uninstallation was refused.
        """
        for deployment in await self._deployments("agent"):
            text = names.annotation(deployment["metadata"].get("annotations"), names.UNINSTALL_POLICY)
            if text is not None and text not in set(Policy):
                where = f"{self._namespace}/{deployment['metadata']['name']}"
                known = ", ".join(Policy)
                raise Refused(
                    f"Deployment {where}: {names.SHORT_PREFIX}{names.UNINSTALL_POLICY}={text} is none of {known}"
                )
            if text is not None:
                return Policy(text)
        return self._policy

    async def _deployments(self, component: str) -> list[Raw]:
        return await self._client.list(DEPLOYMENTS, self._namespace, labels=self._labels(component))

    def _labels(self, component: str) -> str:
        return (
            "app.kubernetes.io/name=flotilla"
            f",app.kubernetes.io/instance={self._release},app.kubernetes.io/component={component}"
        )

    async def _delete_proxies(self, proxies: list[Raw]) -> None:
        """Delete proxy pods while the agent still runs and deletes their delegates.

        The webhook is stopped first, so that recreated pods are ordinary ones.
        """
        await self._stop("webhook")
        with contextlib.suppress(NotFound):
            await self._client.delete(MUTATING_WEBHOOKS, CONFIGURATION)
        self._say(f"deleting {_count(proxies, 'proxy pod')} and their delegates")
        await self._delete_all(PODS, proxies)
        await self._gone("proxy pods", self._proxies)

    async def _stop(self, component: str) -> dict[str, int]:
        """Scale a component's Deployments to 0 and wait until its pods have ended; return the former replica counts."""
        found = await self._deployments(component)
        replicas = {each["metadata"]["name"]: each["spec"].get("replicas", 1) for each in found}
        running = [name for name, count in replicas.items() if count]
        if running:
            self._say(f"stopping {', '.join(running)}")
        await self._scale(dict.fromkeys(running, 0))
        await self._gone(
            f"pods of the {component}", lambda: self._client.list(PODS, self._namespace, labels=self._labels(component))
        )
        return replicas

    async def _scale(self, replicas: dict[str, int]) -> None:
        for name, count in replicas.items():
            body = {"spec": {"replicas": count}}
            await self._client.patch(DEPLOYMENTS, name, body, self._namespace, sub="scale")

    def _refusal(self, proxies: list[Raw], chaperons: list[Raw]) -> str:
        found = []
        if proxies:
            found.append(f"{_count(proxies, 'proxy pod')} of this cluster ({_some(proxies)})")
        if chaperons:
            sources = {
                (each["metadata"].get("labels") or {}).get(names.LABEL_PARENT_CLUSTER_NAME) for each in chaperons
            }
            whose = ", ".join(sorted(name for name in sources if name)) or "other clusters"
            found.append(f"{_count(chaperons, 'pod')} of {whose} ({_some(chaperons)})")
        key = f"{names.SHORT_PREFIX}{names.UNINSTALL_POLICY}"
        return (
            f"nothing was changed: {' and '.join(found)} would be stranded. Delete them first (those of other clusters:"
            " remove the Target there), or say what becomes of them: `kubectl"
            f" -n {self._namespace} annotate deployment -l {self._labels('agent')} {key}=delete` deletes them with"
            f" their delegates, `{key}=orphan` leaves them, and they may run twice; then uninstall again."
            " To keep Flotilla instead, see `helm history` and roll back to the last revision"
        )

    async def _clean(self) -> None:
        """Delete objects that the agents created, and remove their finalizers."""
        self._say("removing what agents and webhooks made")
        await restore_services(self._client, self._say)
        await self._release_all(PODS, fields=PROXY_PODS)
        for kind in (*TARGET_KINDS, MULTI_CLUSTER_NETWORKS):
            await self._release_all(kind)
        await self._release_all(SCHEDULING_MANIFESTS, ours=lambda finalizer: finalizer == p2code.FINALIZER)
        await self._release_all(SECRETS, labels=names.LABEL_TARGET_SECRET, label=names.LABEL_TARGET_SECRET)
        await self._release_all(NAMESPACES, labels=names.LABEL_ELECT_BY_DEFAULT, label=names.LABEL_ELECT_BY_DEFAULT)
        virtual = f"{names.PROVIDER_KEY}={names.PROVIDER_VALUE}"
        await self._delete_all(NODES, await self._list(NODES, labels=virtual))
        for kind in (ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS):
            await self._delete_all(kind, await self._list(kind, labels=names.LABEL_SOURCE))
        # Deleted only now: sources recreate links until their rights end.
        await self._delete_all(SERVICE_LINKS, filter(_is_ours, await self._list(SERVICE_LINKS)))
        # EndpointSlices with gateways' addresses are deleted with these.
        await self._delete_all(GATEWAY_PEERS, await self._list(GATEWAY_PEERS))
        await self._delete_all(ENDPOINT_SLICES, await self._list(ENDPOINT_SLICES, labels=MIRRORS))
        for kind, name, namespace in (
            (CLUSTER_SUMMARIES, names.SUMMARY_NAME, None),
            (LEASES, names.LEASE_CONTROLLERS, self._namespace),
            (LEASES, names.LEASE_CANDIDATES, self._namespace),
            (LEASES, names.LEASE_SOURCES, self._namespace),
            (SECRETS, WEBHOOK_SECRET, self._namespace),
            (SECRETS, GATEWAY_SECRET, self._namespace),
        ):
            with contextlib.suppress(NotFound):
                await self._client.delete(kind, name, namespace)

    async def _tell_of_accounts(self) -> None:
        """Report service accounts of Sources: they stay for a later installation, and their tokens remain valid."""
        accounts = await self._list(SERVICE_ACCOUNTS, labels=names.LABEL_SOURCE)
        if accounts:
            self._say(
                f"{_count(accounts, 'service account')} of Sources and their tokens stay ({_some(accounts)}): delete"
                f" the Sources and ClusterSources to void them (kubectl delete {SOURCES.plural}.{SOURCES.group}"
                f" --all --all-namespaces; kubectl delete {CLUSTER_SOURCES.plural}.{CLUSTER_SOURCES.group} --all)"
            )

    async def _release_all(self, kind: Kind, **which: Any) -> None:
        if not await release_all(self._client, kind, **which):
            raise Refused(f"somebody else keeps changing {kind}: try again")

    async def _delete_all(self, kind: Kind, objects: Iterable[Raw], *, propagation: bool = False) -> None:
        """Delete these objects by UID; ignore missing objects."""
        limit = asyncio.Semaphore(_DELETIONS)

        async def delete(metadata: Raw) -> None:
            async with limit:
                with contextlib.suppress(NotFound, Conflict):
                    await self._client.delete(
                        kind,
                        metadata["name"],
                        metadata.get("namespace"),
                        uid=metadata["uid"],
                        propagation="Foreground" if propagation else None,
                    )

        await asyncio.gather(*(delete(each["metadata"]) for each in objects))

    async def _left(self, kind: Kind, objects: list[Raw]) -> list[Raw]:
        uids = {each["metadata"]["uid"] for each in objects}
        return [each for each in await self._list(kind) if each["metadata"]["uid"] in uids]

    async def _gone(self, what: str, find: Callable[[], Awaitable[list[Raw]]]) -> None:
        deadline = time.monotonic() + self._seconds
        while left := await find():
            if time.monotonic() > deadline:
                raise Refused(
                    f"{what} are still there after {self._seconds:g} s: {_some(left)}. Where a target is out of reach,"
                    " delete its Target (with the annotation multicluster/force-remove=true); or use policy orphan"
                )
            await asyncio.sleep(_POLL_SECONDS)

    async def _proxies(self) -> list[Raw]:
        return await self._list(PODS, fields=PROXY_PODS)

    async def _list(self, kind: Kind, *, labels: str = "", fields: str = "") -> list[Raw]:
        try:
            return await self._client.list(kind, labels=labels, fields=fields)
        except NotFound:
            # Its CRD has been deleted already.
            return []


def _is_ours(link: Raw) -> bool:
    """Return True if the agent created a ServiceLink, for a Service or for a MultiClusterNetwork (AC3)."""
    return is_made(link) or LABEL_NETWORK_UID in (link["metadata"].get("labels") or {})


def _count(objects: list[Raw], noun: str) -> str:
    return f"{len(objects)} {noun}{'' if len(objects) == 1 else 's'}"


def _some(objects: list[Raw]) -> str:
    return abridged([f"{each['metadata'].get('namespace', '')}/{each['metadata']['name']}" for each in objects], _SHOWN)
