"""A Service that two clusters share and its ServiceLink, for tests of links."""

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from agent.api import names
from agent.api.conditions import find_condition
from agent.api.kinds import CLUSTER_SUMMARIES, ENDPOINT_SLICES, SERVICE_LINKS, SERVICES, TARGETS
from agent.kube.client import Client
from agent.kube.errors import NotFound
from tests.controllers.pair import Pair
from tests.controllers.target_links import target
from tests.waiting import until

Raw = dict[str, Any]

SHARED = {"annotations": {"multicluster/global": "true"}, "labels": {names.LABEL_GLOBAL: "true"}}
PORTS = [{"name": "http", "port": 80}, {"name": "admin", "port": 9000}]


class Links:
    """A Service that two clusters share, and its links."""

    def __init__(self, pair: Pair, uid: str) -> None:
        self.pair = pair
        self.uid = uid

    async def offer(self, client: Client, address: str, service: str = "web") -> None:
        """Create a cluster's own endpoint."""
        label = {names.LABEL_GLOBAL: "true"} if client is self.pair.here else {names.LABEL_PARENT_CLUSTER_UID: self.uid}
        slice = {
            "metadata": {"name": f"{service}-own", "labels": {names.LABEL_SERVICE_NAME: service, **label}},
            "addressType": "IPv4",
            "ports": [{"name": each["name"], "port": each["port"]} for each in PORTS],
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        }
        await client.create(ENDPOINT_SLICES, slice, self.pair.namespace)

    async def offered_by_both(self, driver: str = "EndpointSlices", **spec: Any) -> None:
        """Share the Service between both clusters by this driver, with these fields and an endpoint in each."""
        await self.shared_by("True", driver)
        if spec:
            await self.pair.here.patch(SERVICES, "web", {"spec": spec}, self.pair.namespace)
        await self.pair.copy(SERVICES, "web", lambda copy: all(map(copy["spec"].get, spec)))
        await self.offer(self.pair.here, "10.1.0.1")
        await self.offer(self.pair.there, "10.2.0.1")

    async def shared_by(self, status: str, reason: str, message: str = "") -> None:
        """Set the condition that the network driver controller publishes on the Target."""
        found = {"status": by_driver(status, reason, message)}
        await self.pair.here.patch(TARGETS, "eu", found, self.pair.namespace, sub="status")

    async def change(self, **spec: Any) -> None:
        await self.pair.here.patch(SERVICE_LINKS, "web", {"spec": spec}, self.pair.namespace)

    async def annotate(self, **annotations: str | None) -> None:
        found = {f"multicluster/{key.replace('_', '-')}": value for key, value in annotations.items()}
        await self.pair.here.patch(SERVICES, "web", {"metadata": {"annotations": found}}, self.pair.namespace)

    async def once(self, fits: Callable[[Raw], bool], name: str = "web") -> Raw:
        async def probe() -> Raw | None:
            found = await self.pair.here.get(SERVICE_LINKS, name, self.pair.namespace)
            last.append(found.get("status"))
            return found if found.get("status") and fits(found) else None

        last: list[Any] = []
        try:
            return await until(probe) or {}
        except AssertionError as error:
            raise AssertionError(f"{error}: {last[-1:]}") from None

    async def says(self, type: str, status: str, reason: str, *words: str) -> str:
        """Return the message of a condition, once it has this status, this reason and these words."""

        def fits(link: Raw) -> bool:
            *found, message = condition(link, type)
            return found == [status, reason] and all(each in message for each in words)

        return condition(await self.once(fits), type)[2]

    async def mirrored(self, client: Client, want: list[tuple[str, bool, list[str]]], namespace: str = "") -> None:
        """Wait until the mirrored slices in a cluster have exactly these foreign addresses, with readiness and
        port names."""

        async def probe() -> bool:
            found = await client.list(
                ENDPOINT_SLICES,
                namespace or self.pair.namespace,
                labels=f"{names.LABEL_SLICE_MANAGED_BY}={names.SLICE_MANAGER}",
            )
            return want == sorted(
                (
                    each["endpoints"][0]["addresses"][0],
                    each["endpoints"][0]["conditions"].get("ready"),
                    [port["name"] for port in each["ports"] or ()],
                )
                for each in found
            )

        await until(probe)


def by_driver(status: str, reason: str, message: str = "") -> Raw:
    """Return the status of a Target with the condition that the network driver controller publishes."""
    said = {"type": "ServicesShared", "status": status, "reason": reason, "message": message}
    return {"conditions": [{**said, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}


def condition(link: Raw, type: str) -> tuple[str, str, str]:
    found = find_condition((link.get("status") or {}).get("conditions"), type) or {}
    return str(found.get("status")), str(found.get("reason")), str(found.get("message"))


def rows(link: Raw) -> list[tuple[str, list[str], str, str]]:
    return [(row["cluster"], row["from"], row["driver"], row["reason"]) for row in link["status"].get("clusters") or ()]


@contextlib.asynccontextmanager
async def summaries(pair: Pair) -> AsyncIterator[None]:
    """Give both clusters a ClusterSummary without networks: without a summary no driver is chosen."""
    made = {"apiVersion": CLUSTER_SUMMARIES.api_version, "kind": CLUSTER_SUMMARIES.name}
    for client in (pair.here, pair.there):
        with contextlib.suppress(NotFound):
            await client.delete(CLUSTER_SUMMARIES, names.SUMMARY_NAME)
        await client.create(CLUSTER_SUMMARIES, {**made, "metadata": {"name": names.SUMMARY_NAME}})
    try:
        yield
    finally:
        for client in (pair.here, pair.there):
            await client.delete(CLUSTER_SUMMARIES, names.SUMMARY_NAME)


@contextlib.asynccontextmanager
async def shared_with_eu(pair: Pair) -> AsyncIterator[None]:
    """Create the Service `web` and the Target `eu`."""
    await pair.create(SERVICES, "web", metadata=SHARED, spec={"ports": PORTS})
    await pair.here.create(TARGETS, target("eu", pair.namespace))
    try:
        yield
    finally:
        await pair.here.delete(TARGETS, "eu", pair.namespace)
