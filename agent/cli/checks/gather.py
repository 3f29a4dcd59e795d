"""Reads the input of the checks from this cluster, with the user's own rights. Writes nothing."""

import asyncio
import base64
import binascii
from collections.abc import Awaitable
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

from agent import __version__
from agent.api import names
from agent.api.kinds import (
    CLUSTER_SOURCES,
    CRDS,
    ENDPOINT_SLICES,
    EVENTS,
    GATEWAY_PEERS,
    MANAGED_CLUSTERS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PODS,
    POLICIES,
    POLICY_BINDINGS,
    SECRETS,
    SERVICE_LINKS,
    SERVICES,
    SOURCES,
    VALIDATING_WEBHOOKS,
    Kind,
)
from agent.api.ownroles import WEBHOOK_SECRET
from agent.base.clock import Clock
from agent.cli.checks import dry_run, members, staying
from agent.cli.checks.about import read_cluster
from agent.cli.checks.access import rights_of
from agent.cli.checks.endpointless import read as read_endpointless
from agent.cli.checks.gatewaycalls import GatewayCalls
from agent.cli.checks.lookup import services_of
from agent.cli.checks.namespaces import is_enabled
from agent.cli.checks.remote import read_target
from agent.cli.checks.view import ClusterView, Obstacle, Raw, Spread, TargetView, Unproxied, View, WebhookView
from agent.cli.checks.webhook import is_ours
from agent.cli.fleet.lines import moment
from agent.cli.fleet.source_queries import read_nodes, read_targets
from agent.cli.fleet.target_queries import Connections
from agent.cli.hubs.asked import requests
from agent.cli.hubs.bootstrap import public_entry
from agent.cli.options import Failed
from agent.kube.client import METADATA_LIST, Client
from agent.kube.errors import Forbidden, KubeError, NotFound
from agent.kube.store import Key, Object
from agent.model.electedlater import elected_later
from agent.model.podstate import PROXY_PODS
from agent.model.proxypod import is_elected

T = TypeVar("T")

THIS = "this cluster"
LATELY = timedelta(hours=1)
"""API servers keep events for an hour by default, and controllers repeat an event while its obstacle persists."""
_ANY = "default"
_BLOCKED = "FollowBlocked"
_NO_SCHEDULER = "NoScheduler"
_SHARED = "multicluster/Shared"


class Gatherer:
    """Reads a cluster and its targets once."""

    def __init__(self, client: Client, to: Connections, clock: Clock, namespace: str = "") -> None:
        """:param namespace: namespace of the trial pod; empty for a labelled one"""
        self._client = client
        self._to = to
        self._clock = clock
        self._namespace = namespace
        self._unread: list[tuple[str, str]] = []

    async def view(self) -> View:
        """Read the whole installation. Raises KubeError if the cluster itself does not answer."""
        cluster = await read_cluster(self._client, THIS, self._clock)
        namespaces = await self._attempt("namespaces", self._client.list(NAMESPACES))
        installed, webhook, unproxied, obstacles, unscheduled = await asyncio.gather(
            self._installed(cluster),
            self._webhook(namespaces),
            self._attempt("elected pods", self._unproxied()),
            self._attempt("events", self._obstacles()),
            self._attempt("events of delegates", self._events(_NO_SCHEDULER)),
        )
        proxies = await self._attempt("elected pods", self._client.list(PODS, fields=PROXY_PODS))
        services, shared = await self._services()
        endpointless = await self._attempt("endpoints of Services", read_endpointless(self._client, proxies or ()))
        targets = await self._targets()
        misplaced, spread = await self._staying(targets, namespaces or [])
        sources = [*await self._ours(SOURCES), *await self._ours(CLUSTER_SOURCES)]
        peers, calls = await self._ours(GATEWAY_PEERS), GatewayCalls(self._client, self._clock)
        called = await self._attempt("gateways", calls.made(peers))
        return replace(
            await self._of_hub(installed),
            targets=targets,
            sources=tuple(sources),
            webhook=webhook,
            namespaces=tuple(namespaces) if namespaces is not None else None,
            unproxied=unproxied,
            obstacles=obstacles,
            unscheduled=tuple(unscheduled.values()) if unscheduled is not None else None,
            misplaced=misplaced,
            spread=spread,
            proxies=tuple(proxies) if proxies is not None else None,
            services=services,
            shared=shared,
            endpointless=endpointless,
            links=tuple(await self._ours(SERVICE_LINKS)),
            peers=tuple(peers),
            calls=called or (),
            unread=(*self._unread, *calls.unread),
        )

    async def _of_hub(self, view: View) -> View:
        """Read what clusters that join need, their requests, and members, if the cluster is a hub."""
        if not members.is_hub(view):
            return view
        entry = await self._attempt("the hub's address", public_entry(self._client))
        asked = await self._attempt("requests of clusters", requests(self._client))
        found = await self._ours(MANAGED_CLUSTERS)
        address = str(entry["server"]) if entry is not None else None
        return replace(view, members=tuple(found), asked=tuple(asked or ()), hub_address=address)

    async def _staying(
        self, targets: tuple[TargetView, ...], namespaces: list[Raw]
    ) -> tuple[tuple[str, ...] | None, tuple[Spread, ...] | None]:
        """Read pods on virtual nodes that no target runs, and workloads whose spread constraints count these nodes."""
        nodes = [each.node for each in targets if each.node is not None]
        carried = {key for node in nodes for key in node["metadata"].get("labels") or {}}
        titles = [node["metadata"]["name"] for node in nodes]
        return await asyncio.gather(
            self._attempt("pods on virtual nodes", staying.misplaced(self._client, titles)),
            self._attempt("workloads", staying.spread_hard(self._client, carried, namespaces)),
        )

    async def installation(self) -> View:
        """Read only objects of the chart in this cluster, and none that users have created.

        Raises KubeError as above.
        """
        cluster = await read_cluster(self._client, THIS, self._clock)
        installed, (webhook, services) = await asyncio.gather(self._installed(cluster), self._configured())
        where = next((namespace for namespace, _ in sorted(services)), _ANY)
        if webhook.validating:
            webhook = replace(webhook, refuses=await dry_run.refuses(self._client, where))
        return replace(installed, webhook=webhook, unread=tuple(self._unread))

    async def _installed(self, cluster: ClusterView) -> View:
        """Read the objects of the chart that every check needs."""
        crds, policies, rights = await asyncio.gather(
            self._attempt("CRDs", self._client.list(CRDS)),
            self._attempt("policies", self._policies()),
            self._attempt("rights of the agent", rights_of(self._client)),
        )
        return View(self._clock.now(), __version__, cluster, crds=_by_name(crds), policies=policies, rights=rights)

    async def _policies(self) -> frozenset[str]:
        """Return the names of the policies that are in force."""
        found, bindings = await asyncio.gather(self._client.list(POLICIES), self._client.list(POLICY_BINDINGS))
        deny = {each["spec"]["policyName"] for each in bindings if "Deny" in each["spec"].get("validationActions", ())}
        return frozenset(each["metadata"]["name"] for each in found if each["metadata"]["name"] in deny)

    async def _services(self) -> tuple[frozenset[Key] | None, frozenset[Key] | None]:
        """Read all Services; return them, and the shared ones."""
        found = await self._attempt("Services", services_of(self._client, ""))
        if found is None:
            return None, None
        return frozenset(found), frozenset(key for key, has in found.items() if has.get(names.LABEL_GLOBAL) == "true")

    async def _attempt(self, what: str, reading: Awaitable[T]) -> T | None:
        try:
            return await reading
        except (KubeError, Failed) as error:
            self._unread.append((what, str(error)))
            return None

    async def _ours(self, kind: Kind) -> list[Raw]:
        """List objects of a Flotilla kind; empty if its CRD is missing, which another check reports."""
        try:
            return await self._client.list(kind)
        except NotFound:
            return []
        except KubeError as error:
            self._unread.append((kind.plural, str(error)))
            return []

    async def _targets(self) -> tuple[TargetView, ...]:
        notes: list[str] = []
        try:
            found = await read_targets(self._client, None, notes)
            nodes = await read_nodes(self._client)
        except Failed:
            return ()
        except KubeError as error:
            self._unread.append(("virtual nodes", str(error)))
            return ()
        self._unread += [("targets", note) for note in notes]
        reading = (
            read_target(self._client, self._to, each, nodes.get(names.virtual_node(*each.key)), self._clock)
            for each in sorted(found, key=lambda each: each.key)
        )
        return tuple(await asyncio.gather(*reading))

    async def _configured(self) -> tuple[WebhookView, set[tuple[str, str]]]:
        """Return both webhook configurations, and namespaces and names of the Services behind them."""
        mutating = await self._attempt("webhook configurations", self._client.list(MUTATING_WEBHOOKS))
        if mutating is None:
            return WebhookView(), set()
        validating = await self._attempt("webhook configurations", self._client.list(VALIDATING_WEBHOOKS))
        ours = tuple(each for each in mutating if is_ours(each))
        services = {
            (service["namespace"], service["name"])
            for each in ours
            for entry in each["webhooks"]
            if (service := (entry.get("clientConfig") or {}).get("service"))
        }
        found = WebhookView(
            mutating=ours,
            validating=tuple(each for each in validating if is_ours(each)) if validating is not None else None,
            ready=await self._attempt("endpoints of the webhook", self._all_endpoints(services)),
        )
        return found, services

    async def _webhook(self, namespaces: list[Raw] | None) -> WebhookView:
        found, services = await self._configured()
        if found.mutating is None:
            return found
        enabled = [each["metadata"]["name"] for each in namespaces or () if is_enabled(each)]
        where = self._namespace or next(iter(enabled), "")
        outcome = await dry_run.create(self._client, where) if found.mutating and where else dry_run.UNTRIED
        return replace(
            found,
            certificate=await self._certificate(services),
            trial=outcome.trial,
            trial_words=outcome.words,
            trial_namespace=where,
        )

    async def _all_endpoints(self, services: set[tuple[str, str]]) -> dict[str, int | None]:
        return {f"{namespace}/{name}": await self._endpoints(namespace, name) for namespace, name in sorted(services)}

    async def _endpoints(self, namespace: str, name: str) -> int | None:
        """Return the number of ready endpoints, None if the Service does not exist."""
        try:
            await self._client.get_raw(SERVICES, name, namespace)
        except NotFound:
            return None
        slices = await self._client.list(ENDPOINT_SLICES, namespace, labels=f"{names.LABEL_SERVICE_NAME}={name}")
        endpoints = [each for part in slices for each in part.get("endpoints") or ()]
        return sum(1 for each in endpoints if (each.get("conditions") or {}).get("ready") is not False)

    async def _certificate(self, services: set[tuple[str, str]]) -> bytes | None:
        """Return the certificate that the webhook serves, None if no Secret holds it.

        The private key is not used.
        """
        try:
            if services:
                secrets = [await self._client.get(SECRETS, WEBHOOK_SECRET, key[0]) for key in sorted(services)]
            else:
                secrets = await self._client.list(SECRETS, fields=f"metadata.name={WEBHOOK_SECRET}")
            encoded = next((data["tls.crt"] for each in secrets if "tls.crt" in (data := each.get("data") or {})), None)
            return base64.b64decode(encoded) if encoded else None
        except (NotFound, binascii.Error):
            return None
        except Forbidden as error:
            self._unread.append(("webhook certificate", str(error)))
            return None

    async def _unproxied(self) -> tuple[Unproxied, ...]:
        """Find elected pods that are no proxy pods: the webhook has not processed them. Reads only metadata."""
        _, items = await self._client.list_raw(PODS, labels=f"!{names.LABEL_PARENT_UID}", accept=METADATA_LIST)
        found: dict[str, dict[str, bool]] = {}
        for item in items:
            pod = Object(PODS, raw := bytes(item)).decode()
            metadata = pod["metadata"]
            if names.ANNOTATION_MANIFEST not in (metadata.get("annotations") or {}) and is_elected(pod):
                found.setdefault(metadata["namespace"], {})[metadata["name"]] = elected_later(raw)
        return tuple(
            Unproxied(namespace, tuple(sorted(pods)), tuple(sorted(name for name in pods if pods[name])))
            for namespace, pods in sorted(found.items())
        )

    async def _events(self, reason: str) -> dict[str, Obstacle]:
        """Return events with this reason of the last hour, by message."""
        found: dict[str, Obstacle] = {}
        for event in await self._client.list(EVENTS, fields=f"reason={reason}"):
            at = moment(event.get("lastTimestamp") or event.get("eventTime") or "")
            involved = event.get("involvedObject") or {}
            if at is not None and self._clock.now() - at <= LATELY:
                about = f"{involved.get('kind')} {involved.get('namespace')}/{involved.get('name')}"
                found[event.get("message", "")] = Obstacle(about, event.get("message", ""), at)
        return found

    async def _obstacles(self) -> tuple[Obstacle, ...]:
        found = await self._events(_BLOCKED)
        for service in await self._client.list(SERVICES):
            for condition in (service.get("status") or {}).get("conditions") or ():
                if condition["type"] == _SHARED and condition["status"] == "False":
                    metadata = service["metadata"]
                    about = f"Service {metadata['namespace']}/{metadata['name']}"
                    found[f"{about} {condition['message']}"] = Obstacle(about, condition["message"], None)
        return tuple(found.values())


def _by_name(objects: list[Raw] | None) -> dict[str, Any] | None:
    return {each["metadata"]["name"]: each for each in objects} if objects is not None else None
