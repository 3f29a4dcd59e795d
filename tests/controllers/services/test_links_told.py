"""Writes of the status of ServiceLinks, and the effect of a role that lacks a right, on real API servers."""

from pathlib import Path
from typing import Any

import pytest

from agent.api.kinds import CLUSTER_ROLES, ENDPOINT_SLICES, SERVICE_LINKS, SERVICES, Kind
from agent.clusters.deps import Deps
from agent.drivers.driver import LOCAL
from agent.kube.client import Client
from agent.kube.config import load
from agent.services.copies import GlobalServices
from agent.services.endpoints import EndpointsController, NetworkDriverController, networkdriver
from agent.services.links import ServiceLinksController
from agent.services.links.controller import WRITE_SECONDS
from tests.controllers.limited import limited
from tests.controllers.pair import Pair
from tests.controllers.servicelinks import Links, condition, shared_with_eu, summaries
from tests.waiting import until

pytestmark = pytest.mark.cluster

GROUPS = ("", "apps", "batch", "coordination.k8s.io", "events.k8s.io", "multicluster.admiralty.io")


class StandingTime:
    """A clock, in seconds, that only the test advances."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Writes:
    """Number of status writes to links of a namespace; other tests leave links in theirs."""

    def __init__(self, namespace: str) -> None:
        self.count = 0
        self._namespace = namespace

    def watch(self, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        """Count writes of this client, once they are answered."""
        patch = client.patch_raw

        async def counting(kind: Kind, name: str, body: Any, namespace: str | None = None, **more: Any) -> bytes:
            answer = await patch(kind, name, body, namespace, **more)
            self.count += kind is SERVICE_LINKS and namespace == self._namespace and more.get("sub") == "status"
            return answer

        monkeypatch.setattr(client, "patch_raw", counting)


async def test_a_status_is_written_once_in_half_a_second_with_all_that_is_known_then(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    time, controllers, key = StandingTime(), list[ServiceLinksController](), (pair.namespace, "web")
    writes, before = Writes(pair.namespace), 0

    def links_controller(deps: Deps) -> ServiceLinksController:
        writes.watch(deps.local.client, monkeypatch)
        controllers.append(ServiceLinksController(deps, time))
        return controllers[-1]

    async with shared_with_eu(pair), pair.at_work(links_controller, GlobalServices, service_links=True) as eu:
        assert pair.deps is not None
        links, sharing = Links(pair, pair.deps.cluster_uid), controllers[0]._sharing

        async def wrote() -> None:
            nonlocal before
            await until(lambda: writes.count > before)
            before += 1
            assert writes.count == before

        async def holds(seconds: float) -> None:
            assert await controllers[0].reconcile(key) == seconds
            assert writes.count == before

        await links.once(lambda link: condition(link, "Accepted")[0] == "True")
        await wrote()
        await holds(WRITE_SECONDS)
        await links.shared_by("True", "EndpointSlices")
        await pair.copy(SERVICES, "web")
        for client, node in ((pair.here, LOCAL), (pair.there, eu.node_name)):
            await links.offer(client, "10.1.0.1")
            await until(lambda node=node: sharing.own_slices(node, key))
            await holds(WRITE_SECONDS)
        await until(lambda: sharing.place(eu.node_name, key))
        time.now += WRITE_SECONDS / 2
        await holds(WRITE_SECONDS / 2)
        time.now += WRITE_SECONDS / 2
        controllers[0].queue.add(key)
        await links.once(lambda link: [row["endpoints"] for row in link["status"]["clusters"]] == [1, 1])
        await wrote()

        await pair.there.delete(ENDPOINT_SLICES, "web-own", pair.namespace)
        await until(lambda: not sharing.own_slices(eu.node_name, key))
        await holds(WRITE_SECONDS)
        time.now += WRITE_SECONDS
        controllers[0].queue.add(key)
        await links.once(lambda link: [row["cluster"] for row in link["status"]["clusters"]] == ["eu"])
        await wrote()


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_a_link_names_the_rights_that_a_target_does_not_grant(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(networkdriver, "RECHECK_SECONDS", 0.3)

    def rules(*groups: str) -> list[dict[str, Any]]:
        return [{"apiGroups": [group], "resources": ["*"], "verbs": ["*"]} for group in groups]

    async with (
        shared_with_eu(pair),
        summaries(pair),
        limited(pair.clusters[1], pair.there, pair.namespace, tmp_path, rules(*GROUPS)) as weak,
        pair.at_work(
            ServiceLinksController,
            EndpointsController,
            GlobalServices,
            NetworkDriverController,
            connection=load(str(weak.kubeconfig)),
            service_links=True,
            discovery_interval=0.3,
        ),
    ):
        assert pair.deps is not None
        links = Links(pair, pair.deps.cluster_uid)
        await links.offer(pair.here, "10.1.0.1")
        await links.says(
            "Ready", "False", "Forbidden", "may not list, watch, create, patch, delete endpointslices.discovery.k8s.io"
        )
        link = await pair.here.get(SERVICE_LINKS, "web", pair.namespace)
        assert [(row["cluster"], row["reason"], row["ready"]) for row in link["status"]["clusters"]] == [
            ("eu", "Forbidden", "False")
        ]
        granted = {"rules": rules(*GROUPS, ENDPOINT_SLICES.group)}
        await pair.there.patch(CLUSTER_ROLES, pair.namespace, granted)
        await links.says("Programmed", "True", "Programmed")
        await links.mirrored(pair.there, [("10.1.0.1", True, ["http", "admin"])])
