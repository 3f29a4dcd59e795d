"""Replaces Skupper's controllers, which do not run: writes their conditions, with their error texts."""

import asyncio
import contextlib
from contextlib import AbstractAsyncContextManager
from typing import Any

from agent.api import names
from agent.api.kinds import (
    CONNECTORS,
    ENDPOINT_SLICES,
    LISTENERS,
    SERVICES,
    SITES,
    SKUPPER_GRANTS,
    SKUPPER_LINKS,
    SKUPPER_TOKENS,
    Kind,
)
from agent.kube.client import Client
from agent.kube.errors import Conflict, NotFound
from tests.background import PAUSE_SECONDS, background

Raw = dict[str, Any]

LATE = "404 (Not Found) No such claim"
"""Message for a grant that has expired or does not exist."""
USED_UP = "404 (Not Found) No such access granted"
WRONG_CODE = "403 (Forbidden) Redemption of access token refused"
_TEXT, _NUMBER = {"type": "string"}, {"type": "integer"}
_KEY = {"routingKey": _TEXT, "port": _NUMBER, "type": _TEXT, "tlsCredentials": _TEXT}


def _spec(required: list[str], **properties: Any) -> Raw:
    return {"type": "object", "required": required, "properties": properties}


KINDS: list[tuple[Kind, Raw | None]] = [
    (SITES, _spec([], linkAccess=_TEXT, defaultIssuer=_TEXT)),
    (LISTENERS, _spec(["routingKey", "host", "port"], host=_TEXT, **_KEY)),
    (
        CONNECTORS,
        _spec(["routingKey", "port"], selector=_TEXT, host=_TEXT, **_KEY)
        | {"oneOf": [{"required": ["selector"]}, {"required": ["host"]}]},
    ),
    (SKUPPER_GRANTS, _spec([], redemptionsAllowed=_NUMBER, expirationWindow=_TEXT, code=_TEXT)),
    (SKUPPER_TOKENS, _spec(["url", "code", "ca"], url=_TEXT, code=_TEXT, ca=_TEXT)),
    (SKUPPER_LINKS, None),
]
"""Spec fields of the CRDs of Skupper 2; the API server drops all others."""


def named(kind: Kind, name: str, spec: Raw, **labels: str) -> Raw:
    """Return an object of a Skupper kind."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
    }


class Skupper:
    """One Skupper network across the namespace in all clusters that working Links connect."""

    def __init__(self, namespace: str, **clusters: Client) -> None:
        self.clusters = clusters
        self.namespace = namespace
        self.routers = {name: f"10.{number}.9.9" for number, name in enumerate(clusters, 1)}
        self.ready = set(clusters)
        """Clusters in which a selector selects ready pods."""
        self.refusals: list[str] = []
        """Error texts for the next redemptions."""
        self.down: dict[str, dict[str, str]] = {}
        """Faults of the conditions of Links, by the cluster whose Links do not work."""
        self.sites: dict[str, dict[str, str]] = {}
        """Faults of the conditions of the Site, by cluster."""
        self.granting: dict[str, str] = {}
        """Faults of the conditions of grants."""
        self.codes: list[str] = []
        self._grants: dict[str, Raw] = {}
        """Grants of all clusters by UID."""
        self._joined: dict[str, set[str]] = {}
        """Clusters that a working Link of a cluster points to, by that cluster."""

    def at_work(self) -> AbstractAsyncContextManager[None]:
        return background(self._run())

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(Conflict, NotFound):
                offered = {name: await self._connectors(name) for name in self.clusters}
                for name, client in self.clusters.items():
                    for site in await client.list(SITES, self.namespace):
                        await self._site(name, client, site)
                    await self._tokens(name, client)
                    await self._links(name, client)
                    keys = {key for each in self._reached(name) for key in offered[each]}
                    await self._listeners(client, name, keys)
            await asyncio.sleep(PAUSE_SECONDS)

    def _reached(self, name: str) -> set[str]:
        """Return the clusters that are directly or indirectly linked with one."""
        found, left = {name}, [name]
        while left:
            here = left.pop()
            near = self._joined.get(here, set()) | {each for each, ends in self._joined.items() if here in ends}
            left += near - found
            found |= near
        return found

    async def _site(self, name: str, client: Client, site: Raw) -> None:
        resolved = {"Resolved": ""} if (site.get("spec") or {}).get("linkAccess") else {}
        aspects = {"Configured": "", "Running": "", **resolved, **self.sites.get(name, {})}
        await self._say(client, SITES, site, **aspects)

    async def _connectors(self, name: str) -> set[str]:
        found = set()
        for each in await self.clusters[name].list(CONNECTORS, self.namespace):
            problem = "" if name in self.ready else "No matches for selector"
            await self._say(self.clusters[name], CONNECTORS, each, Configured=problem)
            if not problem:
                found.add(each["spec"]["routingKey"])
        return found

    async def _tokens(self, name: str, client: Client) -> None:
        for grant in await client.list(SKUPPER_GRANTS, self.namespace):
            told = {key: value for key, value in (grant.get("status") or {}).items() if key in ("url", "code", "ca")}
            if not told:
                self.codes.append(f"code-{len(self.codes)}")
                url = f"https://10.0.0.1:9090/{grant['metadata']['uid']}"
                told = {"url": url, "code": self.codes[-1], "ca": "PEM"}
            self._grants.setdefault(grant["metadata"]["uid"], {"in": name, "code": told["code"], "used": 0})
            await self._say(client, SKUPPER_GRANTS, grant, told, **{"Processed": "", "Resolved": "", **self.granting})
        for token in await client.list(SKUPPER_TOKENS, self.namespace):
            if "status" in token:
                continue
            grant = self._grants.get(token["spec"]["url"].rpartition("/")[2], {})
            problem = self.refusals.pop(0) if self.refusals else _refused(grant, token)
            if not problem:
                grant["used"] += 1
                link = named(SKUPPER_LINKS, token["metadata"]["name"], {"endpoints": []}, to=grant["in"])
                await client.create(SKUPPER_LINKS, link, self.namespace)
            words = f"Controller got failed response: {problem}" if problem else ""
            await self._say(client, SKUPPER_TOKENS, token, {"redeemed": not problem}, Redeemed=words)

    async def _links(self, name: str, client: Client) -> None:
        found = set()
        for link in await client.list(SKUPPER_LINKS, self.namespace):
            problems = self.down.get(name, {})
            await self._say(client, SKUPPER_LINKS, link, **{"Configured": "", "Operational": "", **problems})
            if not problems:
                found.add((link["metadata"].get("labels") or {}).get("to", ""))
        self._joined[name] = found & set(self.clusters)

    async def _listeners(self, client: Client, name: str, keys: set[str]) -> None:
        first: dict[tuple[str, int], str] = {}
        found = await client.list(LISTENERS, self.namespace)
        for each in sorted(found, key=lambda each: (each["metadata"]["creationTimestamp"], each["metadata"]["name"])):
            place = (each["spec"]["host"], each["spec"]["port"])
            if place in first:
                problem = f"Host and port are in use by Listener {first[place]}"
                await self._say(client, LISTENERS, each, Configured=problem, Matched=problem)
                continue
            first[place] = each["metadata"]["name"]
            await self._listener(client, name, each, keys)

    async def _listener(self, client: Client, name: str, listener: Raw, keys: set[str]) -> None:
        host, port = listener["spec"]["host"], listener["spec"]["port"]
        mine = {"internal.skupper.io/listener": "true"}
        ports = [{"name": listener["metadata"]["name"], "port": port, "targetPort": 1024 + port % 100}]
        try:
            found = await client.get(SERVICES, host, self.namespace)
        except NotFound:
            made = {"metadata": {"name": host, "labels": mine}, "spec": {"ports": ports}}
            found = await client.create(SERVICES, made, self.namespace)
        if (found["metadata"].get("labels") or {}).keys().isdisjoint(mine):
            problem = f"Service {host} already exists in namespace"
            await self._say(client, LISTENERS, listener, Configured=problem, Matched=problem)
            return
        if listener["metadata"]["name"] not in {each.get("name") for each in found["spec"]["ports"]}:
            others = [each for each in found["spec"]["ports"] if each["port"] != port]
            body = {"spec": {"ports": [*others, *ports]}}
            found = await client.patch(SERVICES, host, body, self.namespace)
        opened = [
            {"name": each["name"], "port": each["targetPort"], "protocol": "TCP"} for each in found["spec"]["ports"]
        ]
        slice = {
            "metadata": {"name": f"{host}-1", "labels": {names.LABEL_SERVICE_NAME: host}},
            "addressType": "IPv4",
            "ports": opened,
            "endpoints": [{"addresses": [self.routers[name]], "conditions": {"ready": True}}],
        }
        try:
            live = await client.get(ENDPOINT_SLICES, f"{host}-1", self.namespace)
        except NotFound:
            live = await client.create(ENDPOINT_SLICES, slice, self.namespace)
        if [each["name"] for each in live["ports"]] != [each["name"] for each in opened]:
            await client.patch(ENDPOINT_SLICES, f"{host}-1", {"ports": opened}, self.namespace)
        problem = "" if listener["spec"]["routingKey"] in keys else "No matching connectors"
        await self._say(client, LISTENERS, listener, Configured="", Matched=problem)

    async def _say(self, client: Client, kind: Kind, obj: Raw, told: Raw | None = None, **aspects: str) -> None:
        """Write the status of an object from its faults by condition type (empty: none), unless it is unchanged."""
        conditions = [
            {
                "type": type,
                "status": "False" if problem else "True",
                "reason": _reason(type, problem),
                "message": problem or "OK",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            for type, problem in aspects.items()
        ]
        type, problem = next(((type, problem) for type, problem in aspects.items() if problem), ("", ""))
        status = {
            **(told or {}),
            "status": _reason(type, problem),
            "message": problem or "OK",
            "conditions": conditions,
        }
        if obj.get("status") != status:
            await client.patch(kind, obj["metadata"]["name"], {"status": status}, self.namespace, sub="status")


def _refused(grant: Raw, token: Raw) -> str:
    """Return the grant server's refusal of a redemption; empty if it accepts."""
    if not grant:
        return LATE
    if grant["used"]:
        return USED_UP
    return "" if token["spec"]["code"] == grant["code"] else WRONG_CODE


def _reason(type: str, problem: str) -> str:
    if not problem:
        return "Ready"
    waits = type in ("Resolved", "Operational") or problem == "No matching connectors"
    return "Pending" if waits else "Error"
