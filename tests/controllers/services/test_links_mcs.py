"""Conditions that an implementation of the Multi-Cluster Services API sets on exports appear in ServiceLinks."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent.api.kinds import CHAPERONS, SERVICE_EXPORTS, SERVICE_IMPORTS, SERVICES
from agent.api.roles import EVERYTHING, rules
from agent.kube.client import Client
from agent.kube.config import load
from agent.services.copies import GlobalServices
from agent.services.endpoints import EndpointsController
from agent.services.links import ServiceLinksController, controller, findings
from tests.controllers.installed import installed
from tests.controllers.limited import limited
from tests.controllers.pair import Pair
from tests.controllers.servicelinks import Links, condition, rows, shared_with_eu
from tests.waiting import until

pytestmark = pytest.mark.cluster


class Implementation:
    """Replaces an implementation: writes given conditions and clusters to ServiceExports and ServiceImports."""

    def __init__(self, pair: Pair) -> None:
        self._namespace = pair.namespace

    async def says(self, client: Client, **conditions: tuple[str, str]) -> None:
        """Set conditions of a cluster's export, once it exists."""
        await until(lambda: client.get(SERVICE_EXPORTS, "web", self._namespace))
        status = {"conditions": [_condition(type, *words) for type, words in conditions.items()]}
        await client.patch(SERVICE_EXPORTS, "web", {"status": status}, self._namespace, sub="status")

    async def imports(self, client: Client, *clusters: str) -> None:
        spec = {"type": "ClusterSetIP", "ports": [{"port": 80, "protocol": "TCP"}]}
        await client.create(SERVICE_IMPORTS, {**HEAD, "metadata": {"name": "web"}, "spec": spec}, self._namespace)
        status = {"clusters": [{"cluster": each} for each in clusters]}
        await client.patch(SERVICE_IMPORTS, "web", {"status": status}, self._namespace, sub="status")


def _condition(type: str, status: str, reason: str) -> dict[str, Any]:
    words = {"status": status, "reason": reason, "message": f"as {reason} is"}
    return {"type": type, **words, "lastTransitionTime": "2026-01-01T00:00:00Z"}


HEAD = {"apiVersion": SERVICE_IMPORTS.api_version, "kind": SERVICE_IMPORTS.name}
GOOD = {"Valid": ("True", "Valid"), "Ready": ("True", "Exported"), "Conflict": ("False", "NoConflicts")}


def ask_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poll every half second: on a busy machine an answer may be late, and the next one would follow too late."""
    monkeypatch.setattr(controller, "ASK_SECONDS", 0.5)
    monkeypatch.setattr(findings, "SILENT_SECONDS", 0.5)


@pytest.mark.full("A double of another network's controllers answers; that driver is experimental.")
async def test_what_became_of_an_export_is_told(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    ask_often(monkeypatch)
    mcs = Implementation(pair)
    async with (
        installed((pair.here, pair.there), [(SERVICE_EXPORTS, None), (SERVICE_IMPORTS, None)]),
        shared_with_eu(pair),
        pair.at_work(
            ServiceLinksController, EndpointsController, GlobalServices, service_links=True, discovery_interval=1.0
        ),
    ):
        assert pair.deps is not None
        links = Links(pair, pair.deps.cluster_uid)
        await links.offered_by_both("MCS")
        await links.once(lambda link: "see that one runs" in condition(link, "Programmed")[2])
        await mcs.says(pair.here, **GOOD)
        await mcs.says(pair.there, Valid=("False", "InvalidServiceType"))
        found = await links.once(lambda link: condition(link, "Programmed")[1] == "InvalidServiceType")
        assert "here from eu: as InvalidServiceType is" in condition(found, "Programmed")[2]
        await mcs.says(pair.there, **GOOD)
        await links.once(lambda link: "no ServiceImport" in condition(link, "Ready")[2])
        for client in (pair.here, pair.there):
            await mcs.imports(client, "eu", "here")
        found = await links.once(lambda link: condition(link, "Ready")[0] == "True")
        assert rows(found) == [("here", ["eu"], "mcs", "Connected"), ("eu", ["here"], "mcs", "Connected")]
        assert "imported from eu, here" in found["status"]["clusters"][0]["message"]
        assert found["status"]["host"] == f"web.{pair.namespace}.svc.clusterset.local"

        await mcs.says(pair.there, **(GOOD | {"Conflict": ("True", "PortConflict")}))
        await links.says("Ready", "False", "PortConflict", "eu from here: exports differ: as PortConflict is")
        await mcs.says(pair.there, **GOOD)
        await links.says("Ready", "True", "Ready")
        await links.shared_by("True", "EndpointSlices")
        await links.once(lambda link: link["status"]["host"] == "web")


@pytest.mark.full("A double of another network's controllers answers; that driver is experimental.")
async def test_a_target_that_lets_nobody_look_at_imports_is_told_of_all_the_same(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_often(monkeypatch)
    mcs, few = Implementation(pair), [grant for grant in EVERYTHING if grant.kind != SERVICE_IMPORTS]
    agents = {"apiGroups": [CHAPERONS.group], "resources": ["*"], "verbs": ["*"]}
    async with (
        installed((pair.here, pair.there), [(SERVICE_EXPORTS, None), (SERVICE_IMPORTS, None)]),
        shared_with_eu(pair),
        limited(pair.clusters[1], pair.there, pair.namespace, tmp_path, [*rules(few), agents]) as weak,
        pair.at_work(
            *(ServiceLinksController, EndpointsController, GlobalServices),
            connection=load(str(weak.kubeconfig)),
            service_links=True,
        ),
    ):
        assert pair.deps is not None
        links = Links(pair, pair.deps.cluster_uid)
        await links.shared_by("True", "MCS")
        await pair.copy(SERVICES, "web")
        with monkeypatch.context() as nobody:
            nobody.setattr(findings, "ANSWER_SECONDS", 0.0)
            await links.offer(pair.here, "10.1.0.1")
            await links.once(lambda link: condition(link, "Programmed")[1] == "TargetUnreachable")
            # A cached answer is refreshed when it expires; the refreshed one then stays.
            await asyncio.sleep(2 * findings.FRESH_SECONDS)
        for client in (pair.here, pair.there):
            await mcs.says(client, **GOOD)
        # No measurement exists, and no evidence against the connection.
        await links.says("Connected", "Unknown", "Unverified", "may not be looked at", "serviceimports")
        await links.once(lambda link: condition(link, "Ready")[0] == "True")
