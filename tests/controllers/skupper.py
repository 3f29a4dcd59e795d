"""Stands for Skupper's controllers, which do not run here: gives their conditions and the texts of their errors."""

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
    SKUPPER_TOKENS,
    Kind,
)
from agent.kube.client import Client
from agent.kube.errors import AlreadyExists, Conflict, NotFound
from tests.background import PAUSE_SECONDS, background

Raw = dict[str, Any]

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
]
"""As the CRDs of Skupper 2 have it: what they do not know of a spec is dropped."""


class Skupper:
    """One network between the namespace in all clusters, once a token of one has been redeemed at the other."""

    def __init__(self, namespace: str, **clusters: Client) -> None:
        self.clusters = clusters
        self.namespace = namespace
        self.routers = {name: f"10.{number}.9.9" for number, name in enumerate(clusters, 1)}
        self.ready = set(clusters)
        """Clusters in which a selector selects ready pods."""
        self.refusals = 0
        """So many redemptions come too late."""
        self.codes: list[str] = []
        self.joined = False

    def at_work(self) -> AbstractAsyncContextManager[None]:
        return background(self._run())

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(Conflict, NotFound):
                offered = {name: await self._connectors(name) for name in self.clusters}
                for name, client in self.clusters.items():
                    for site in await client.list(SITES, self.namespace):
                        await self._say(client, SITES, site, Configured="", Running="")
                    await self._grants(client)
                    sites = self.clusters if self.joined else [name]
                    keys = {key for each in sites for key in offered[each]}
                    for listener in await client.list(LISTENERS, self.namespace):
                        await self._listener(client, name, listener, keys)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _connectors(self, name: str) -> set[str]:
        found = set()
        for each in await self.clusters[name].list(CONNECTORS, self.namespace):
            problem = "" if name in self.ready else "No matches for selector"
            await self._say(self.clusters[name], CONNECTORS, each, Configured=problem)
            if not problem:
                found.add(each["spec"]["routingKey"])
        return found

    async def _grants(self, client: Client) -> None:
        for grant in await client.list(SKUPPER_GRANTS, self.namespace):
            if "code" not in grant.get("status", {}):
                self.codes.append(f"code-{len(self.codes)}")
                told = {"url": "https://10.0.0.1:9090/x", "code": self.codes[-1], "ca": "PEM"}
                await self._say(client, SKUPPER_GRANTS, grant, told, Processed="", Resolved="")
        for token in await client.list(SKUPPER_TOKENS, self.namespace):
            if "status" in token:
                continue
            late = self.refusals > 0
            self.refusals -= late
            good = token["spec"]["code"] in self.codes and not late
            problem = "" if good else "Controller got failed response: 404 (Not Found) No such claim"
            self.joined |= good
            await self._say(client, SKUPPER_TOKENS, token, {"redeemed": good}, Redeemed=problem)

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
            body = {"spec": {"ports": [*found["spec"]["ports"], *ports]}}
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
            await client.create(ENDPOINT_SLICES, slice, self.namespace)
        except AlreadyExists:
            await client.patch(ENDPOINT_SLICES, f"{host}-1", {"ports": opened}, self.namespace)
        problem = "" if listener["spec"]["routingKey"] in keys else "No matching connectors"
        await self._say(client, LISTENERS, listener, Configured="", Matched=problem)

    async def _say(self, client: Client, kind: Kind, obj: Raw, told: Raw | None = None, **aspects: str) -> None:
        """Conditions by type with what is wrong; an object whose state is the same is left alone."""
        conditions = [
            {
                "type": type,
                "status": "False" if problem else "True",
                "reason": ("Pending" if type == "Matched" else "Error") if problem else "Ready",
                "message": problem or "OK",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            for type, problem in aspects.items()
        ]
        problem = next(filter(None, aspects.values()), "")
        state = ("Pending" if problem == "No matching connectors" else "Error") if problem else "Ready"
        status = {**(told or {}), "status": state, "message": problem or "OK", "conditions": conditions}
        if obj.get("status") != status:
            await client.patch(kind, obj["metadata"]["name"], {"status": status}, self.namespace, sub="status")
