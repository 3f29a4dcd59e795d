"""The driver `mcs` on real API servers: exports are recreated, and removed with the driver; API versions."""

import asyncio
import dataclasses
from typing import Any

import pytest

from agent.api import names
from agent.api.conditions import find_condition
from agent.api.kinds import EVENTS, SERVICE_EXPORTS, SERVICE_IMPORTS, SERVICES, TARGETS, Kind
from agent.cli.remove_copies import withdraw
from agent.drivers import exports, handover
from agent.drivers.exports import OURS
from agent.kube.client import Client
from agent.kube.errors import NotFound
from agent.services.copies import GlobalServices
from agent.services.endpoints import EndpointsController, NetworkDriverController
from agent.services.imports import ServiceImportsController
from agent.services.links import ServiceLinksController, controller
from tests.controllers.installed import installed, uninstalled
from tests.controllers.pair import Pair
from tests.controllers.servicelinks import PORTS, SHARED, Links, condition, rows, shared_with_eu, summaries
from tests.controllers.target_links import condition as said_of_target
from tests.controllers.target_links import target
from tests.waiting import gone, until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]

CONTROLLERS = (EndpointsController, GlobalServices)
BOTH: list[tuple[Kind, Raw | None]] = [(SERVICE_EXPORTS, None), (SERVICE_IMPORTS, None)]
BETA_EXPORTS, BETA_IMPORTS = (dataclasses.replace(kind, version="v1beta1") for kind, _ in BOTH)
NO_LONGER = 2.0
"""Seconds after which an unwanted event would have happened."""


async def export_of(client: Client, namespace: str, name: str = "web", kind: Kind = SERVICE_EXPORTS) -> Raw:
    """Return our export of a Service, once it exists and the current Service owns it."""

    async def probe() -> Raw | None:
        found = await client.get(kind, name, namespace)
        service = await client.get(SERVICES, name, namespace)
        owners = [each["uid"] for each in found["metadata"].get("ownerReferences") or ()]
        ours = OURS in (found["metadata"].get("labels") or {})
        return found if ours and owners == [service["metadata"]["uid"]] else None

    return await until(probe) or {}


async def by_hand(client: Client, namespace: str, name: str, kind: Kind = SERVICE_EXPORTS) -> Raw:
    """Create an export, as a user does."""
    return await client.create(
        kind, {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name}}, namespace
    )


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_what_somebody_deletes_of_an_export_or_changes_comes_back_and_a_look_at_the_rest_writes_nothing(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "AGAIN_SECONDS", 0.3)
    asked = count_requests(monkeypatch)
    both = (pair.here, pair.there)
    async with installed(both, BOTH), shared_with_eu(pair), pair.at_work(*CONTROLLERS):
        assert pair.deps is not None
        await Links(pair, pair.deps.cluster_uid).shared_by("True", "MCS")
        for client in both:
            before = await export_of(client, pair.namespace)
            await client.delete(SERVICE_EXPORTS, "web", pair.namespace)
            assert (await export_of(client, pair.namespace))["metadata"]["uid"] != before["metadata"]["uid"]
        # Without its owner reference it would outlive the Service.
        await pair.there.patch(SERVICE_EXPORTS, "web", {"metadata": {"ownerReferences": None}}, pair.namespace)
        await export_of(pair.there, pair.namespace)
        await uninstalled(both, [str(SERVICE_EXPORTS)])
        async with installed(both, BOTH[:1]):
            for client in both:
                await export_of(client, pair.namespace)
            # A user adds a field to our export, and creates another export: both stay.
            await pair.there.patch(SERVICE_EXPORTS, "web", {"spec": {"exportedLabels": {"a": "1"}}}, pair.namespace)
            await by_hand(pair.here, pair.namespace, "api")
            await pair.create(SERVICES, "api", metadata=SHARED, spec={"ports": PORTS})
            await export_of(pair.there, pair.namespace, "api")
            await asyncio.sleep(NO_LONGER)
            asked.clear()
            await asyncio.sleep(NO_LONGER)
            assert asked.count(("list_raw", SERVICE_EXPORTS.name)) >= 2
            assert {verb for verb, _ in asked} == {"list_raw"}
            kept = await export_of(pair.there, pair.namespace)
            assert kept["spec"] == {"exportedLabels": {"a": "1"}}


def count_requests(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Return a list that receives verb and kind of all later lists and writes."""
    asked = list[tuple[str, str]]()

    def counted(verb: str) -> Any:
        real = getattr(Client, verb)

        async def ask(self: Client, kind: Kind, *words: Any, **more: Any) -> Any:
            asked.append((verb, kind.name))
            return await real(self, kind, *words, **more)

        return ask

    for verb in ("list_raw", "create_raw", "patch_raw", "update_raw", "delete"):
        monkeypatch.setattr(Client, verb, counted(verb))
    return asked


async def test_exports_of_an_agent_before_this_one_go_at_once_with_the_driver_and_those_of_users_stay(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover, "KEEP_SECONDS", 3600.0)
    both = (pair.here, pair.there)
    async with installed(both, BOTH), shared_with_eu(pair):
        theirs = [await by_hand(client, pair.namespace, "api") for client in both]
        async with pair.at_work(*CONTROLLERS):
            assert pair.deps is not None
            links = Links(pair, pair.deps.cluster_uid)
            await links.shared_by("True", "MCS")
            for client in both:
                await export_of(client, pair.namespace)
            # Created after exports were listed last.
            theirs += [await by_hand(client, pair.namespace, "late") for client in both]
            for name in ("api", "late"):
                await pair.create(SERVICES, name, metadata=SHARED, spec={"ports": PORTS})
                await pair.copy(SERVICES, name)
            await pair.create(SERVICES, "last", metadata=SHARED, spec={"ports": PORTS})
            for client in both:
                await export_of(client, pair.namespace, "last")
        await links.shared_by("True", "EndpointSlices")
        async with pair.at_work(*CONTROLLERS):
            for client in both:
                for name in ("web", "last"):
                    await gone(lambda client=client, name=name: client.get(SERVICE_EXPORTS, name, pair.namespace))  # type: ignore[misc]
            for client in both:
                left = await client.list(SERVICE_EXPORTS, pair.namespace)
                assert {each["metadata"]["name"] for each in left} == {"api", "late"}
                assert all(each in theirs for each in left)


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_a_driver_that_a_target_cannot_have_leaves_nothing_of_the_one_before(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover, "KEEP_SECONDS", 4.0)
    async with (
        installed((pair.here,), BOTH),
        shared_with_eu(pair),
        pair.at_work(ServiceLinksController, *CONTROLLERS, service_links=True),
    ):
        assert pair.deps is not None
        links = Links(pair, pair.deps.cluster_uid)
        await links.offered_by_both()
        for client, address in ((pair.here, "10.2.0.1"), (pair.there, "10.1.0.1")):
            await links.mirrored(client, [(address, True, ["http", "admin"])])
        await links.annotate(network_driver="mcs")
        for client in (pair.here, pair.there):
            await links.mirrored(client, [])

        async def told() -> str:
            events = await pair.here.list(EVENTS, pair.namespace, fields="reason=EndpointsBlocked")
            return "".join(each["message"] for each in events)

        remedy = "the target serves no serviceexports.multicluster.x-k8s.io: install the CRDs"
        assert remedy in await until(told)
        await links.once(lambda link: remedy in condition(link, "Programmed")[2])


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_the_newest_version_that_is_served_is_used_and_where_there_is_none_the_target_says_what_to_do(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "ASK_SECONDS", 0.5)
    monkeypatch.setattr("agent.services.endpoints.networkdriver.RECHECK_SECONDS", 0.3)
    both = (pair.here, pair.there)

    async def said(status: str, reason: str) -> str:
        found = await said_of_target(pair.here, pair.namespace, "eu", "ServicesShared", status, reason)
        return str(found["message"])

    async with (
        installed(both, [(BETA_IMPORTS, None)]),
        shared_with_eu(pair),
        summaries(pair),
        pair.at_work(
            NetworkDriverController, ServiceLinksController, *CONTROLLERS, service_links=True, discovery_interval=0.5
        ),
    ):
        assert pair.deps is not None
        links = Links(pair, pair.deps.cluster_uid)
        await said("True", "EndpointSlices")
        await name_driver(pair, "none")
        await said("True", "Off")
        # The API group alone does not select the driver.
        await name_driver(pair, None)
        await said("True", "EndpointSlices")
        await name_driver(pair, "mcs")
        remedy = "this cluster serves no serviceexports.multicluster.x-k8s.io: install the CRDs"
        assert remedy in await said("False", "Forbidden")
        async with installed(both, [(BETA_EXPORTS, None)]):
            await said("True", "MCS")
            await name_driver(pair, None)
            await links.offer(pair.here, "10.1.0.1")
            await links.offer(pair.there, "10.2.0.1")
            for client in both:
                await export_of(client, pair.namespace, kind=BETA_EXPORTS)
                good = {"type": "Valid", "status": "True", "reason": "Valid", "message": ""}
                good |= {"lastTransitionTime": "2026-01-01T00:00:00Z"}
                status = {"status": {"conditions": [good]}}
                await client.patch(BETA_EXPORTS, "web", status, pair.namespace, sub="status")
            await links.once(lambda link: "no ServiceImport" in condition(link, "Ready")[2])
            await imported(pair, pair.here, "eu", "here")
            await imported(pair, pair.there, "eu")
            # If the implementation names clusters like Targets, a cluster missing in its import is Pending.
            await links.once(
                lambda link: rows(link) == [("here", ["eu"], "mcs", "Connected"), ("eu", ["here"], "mcs", "Pending")]
            )
            await imported(pair, pair.there, "one", "two")
            await links.once(
                lambda link: rows(link) == [("here", ["eu"], "mcs", "Connected"), ("eu", ["here"], "mcs", "Unverified")]
            )
        await said("True", "EndpointSlices")


async def name_driver(pair: Pair, name: str | None) -> None:
    annotations = {names.SHORT_PREFIX + names.NETWORK_DRIVER: name}
    await pair.here.patch(TARGETS, "eu", {"metadata": {"annotations": annotations}}, pair.namespace)


async def imported(pair: Pair, client: Client, *clusters: str) -> None:
    """Write the clusters of a ServiceImport, as an implementation does."""
    try:
        await client.get(BETA_IMPORTS, "web", pair.namespace)
    except NotFound:
        spec = {"type": "ClusterSetIP", "ports": [{"port": 80, "protocol": "TCP"}]}
        head = {"apiVersion": BETA_IMPORTS.api_version, "kind": BETA_IMPORTS.name}
        await client.create(BETA_IMPORTS, {**head, "metadata": {"name": "web"}, "spec": spec}, pair.namespace)
    status = {"status": {"clusters": [{"cluster": each} for each in clusters]}}
    await client.patch(BETA_IMPORTS, "web", status, pair.namespace, sub="status")


async def test_our_own_implementation_serves_the_newest_version_too_and_an_uninstall_takes_exports_of_it(
    pair: Pair,
) -> None:
    both, kinds = (pair.here, pair.there), [(BETA_EXPORTS, None), (BETA_IMPORTS, None)]
    async with installed(both, kinds):
        await pair.here.create(TARGETS, target("eu", pair.namespace))
        try:
            async with pair.at_work(ServiceImportsController, *CONTROLLERS, mcs=True, discovery_interval=1.0):
                assert pair.deps is not None
                await Links(pair, pair.deps.cluster_uid).shared_by("True", "EndpointSlices")
                spec = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
                await pair.there.create(SERVICES, {"metadata": {"name": "web"}, "spec": spec}, pair.namespace)
                mine = await by_hand(pair.there, pair.namespace, "web", BETA_EXPORTS)
                for client in both:
                    found = await until(lambda client=client: ready(client, BETA_IMPORTS, pair.namespace))  # type: ignore[misc]
                    assert found["status"]["clusters"] == [{"cluster": "eu"}]
                await until(lambda: ready(pair.there, BETA_EXPORTS, pair.namespace))
                await pair.there.delete(BETA_EXPORTS, "web", pair.namespace, uid=mine["metadata"]["uid"])
                for client in both:
                    await gone(lambda client=client: client.get(BETA_IMPORTS, "web", pair.namespace))  # type: ignore[misc]
        finally:
            await pair.here.delete(TARGETS, "eu", pair.namespace)
        head = {"apiVersion": BETA_EXPORTS.api_version, "kind": BETA_EXPORTS.name}
        ours = {**head, "metadata": {"name": "ours", "labels": {OURS: "some-cluster"}}}
        await pair.here.create(BETA_EXPORTS, ours, pair.namespace)
        await by_hand(pair.here, pair.namespace, "theirs", BETA_EXPORTS)
        await withdraw(pair.here, lambda said: None, copies=False)
        left = await pair.here.list(BETA_EXPORTS, pair.namespace)
        assert [each["metadata"]["name"] for each in left] == ["theirs"]


async def ready(client: Client, kind: Kind, namespace: str) -> Raw | None:
    found = await client.get(kind, "web", namespace)
    said = find_condition((found.get("status") or {}).get("conditions"), "Ready") or {}
    return found if said.get("status") == "True" else None
