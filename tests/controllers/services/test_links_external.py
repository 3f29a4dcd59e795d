"""The driver `external/NAME`: the controller from the documentation, running between real API servers."""

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent.api.kinds import ENDPOINT_SLICES, SERVICE_LINKS
from agent.drivers import handover
from agent.kube.client import Client
from agent.services.copies import GlobalServices
from agent.services.endpoints import EndpointsController
from agent.services.links import ServiceLinksController
from tests.controllers.pair import Pair
from tests.controllers.servicelinks import PORTS, SERVICES, SHARED, Links, rows, shared_with_eu
from tests.controllers.services.test_links_elsewhere import elsewhere
from tests.waiting import until

pytestmark = pytest.mark.cluster

PAGE = Path(__file__).parents[3] / "docs/reference/links.md"


def controller() -> str:
    found = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


@contextlib.asynccontextmanager
async def at_work(pair: Pair, config: Path) -> AsyncIterator[None]:
    """Run the controller as a separate process, with the kubectl of the sandbox."""
    programs = str(Path(pair.clusters[0].runner.plan.programs["kubectl"]).parent)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    # A session of its own, since it leaves a watching kubectl behind.
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", controller(), "here", str(config), env=environment, start_new_session=True
    )
    try:
        yield
        assert process.returncode is None, "the controller has failed"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def write(config: Path, known: dict[str, Any]) -> None:
    """Replace the file atomically, since the controller reads it whenever a link changes."""
    new = config.with_suffix(".new")
    new.write_text(json.dumps(known))
    new.replace(config)


async def routed(pair: Pair, client: Client, want: list[str], namespace: str = "") -> None:
    """Wait until the controller's slices have these addresses."""

    async def probe() -> bool:
        made = "endpointslice.kubernetes.io/managed-by=sdwan"
        found = await client.list(ENDPOINT_SLICES, namespace or pair.namespace, labels=made)
        return want == [each["addresses"][0] for slice in found for each in slice["endpoints"]]

    await until(probe)


def test_the_controller_that_is_shown_is_short() -> None:
    assert len([line for line in controller().splitlines() if line.strip()]) <= 55


@pytest.mark.full("A double of another network's controllers answers; that driver is experimental.")
async def test_another_controller_programs_a_link_and_says_so(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover, "KEEP_SECONDS", 4.0)
    config = tmp_path / "clusters.json"
    known: dict[str, Any] = {
        "here": {"kubeconfig": str(pair.clusters[0].kubeconfig), "router": "100.64.0.1"},
        "eu": {"kubeconfig": str(pair.clusters[1].kubeconfig), "router": "100.64.0.2"},
    }
    write(config, known)
    async with (
        shared_with_eu(pair),
        pair.at_work(ServiceLinksController, EndpointsController, GlobalServices, service_links=True),
    ):
        assert pair.deps is not None
        links = Links(pair, pair.deps.cluster_uid)
        await links.offered_by_both()
        await links.mirrored(pair.there, [("10.1.0.1", True, ["http", "admin"])])
        await links.annotate(network_driver="external/sdwan")
        await links.says("Ready", "False", "Pending", "sdwan/Programmed")
        await links.mirrored(pair.there, [])

        async with at_work(pair, config):
            await links.says("Ready", "True", "Ready")
            link = await links.once(lambda link: rows(link)[0][3] == "Connected")
            assert rows(link) == [
                ("here", ["eu"], "external/sdwan", "Connected"),
                ("eu", ["here"], "external/sdwan", "Connected"),
            ]
            await routed(pair, pair.here, ["100.64.0.2"])
            await routed(pair, pair.there, ["100.64.0.1"])
            write(config, {"here": known["here"]})
            await links.change(affinity="none")
            await links.says("Ready", "False", "NoRouter", "no router leads to eu")
            await routed(pair, pair.here, [])
            write(config, known)
            await links.change(affinity=None)
            await links.says("Ready", "True", "Ready")

        # The external controller has not reported on the changed link yet.
        await links.change(**{"from": ["eu"]})
        await links.says("Ready", "False", "Pending", "generation")
        async with at_work(pair, config):
            await links.says("Ready", "True", "Ready")
            await routed(pair, pair.there, [])
            await links.annotate(network_driver=None)
            await links.once(lambda link: rows(link) == [("here", ["eu"], "endpointslices", "Unverified")])
            await routed(pair, pair.here, [])


@pytest.mark.full("A double of another network's controllers answers; that driver is experimental.")
async def test_callers_in_another_namespace_are_led_to_the_routers_there(pair: Pair, tmp_path: Path) -> None:
    config = tmp_path / "clusters.json"
    here, there = (str(cluster.kubeconfig) for cluster in pair.clusters)
    write(
        config,
        {
            "here": {"kubeconfig": here, "router": "100.64.0.1"},
            pair.namespace: {"kubeconfig": there, "router": "100.64.0.2"},
        },
    )
    await pair.create(SERVICES, "web", metadata=SHARED, spec={"ports": PORTS, "selector": {"app": "web"}})
    async with elsewhere(pair) as found, at_work(pair, config):
        await pair.copy(SERVICES, "web")
        await found.links.offer(pair.here, "10.1.0.1")
        only = {"driver": "external/sdwan", "from": ["here"]}
        await found.link("for-b", "web", (pair.namespace, found.namespace), **only)
        await routed(pair, pair.there, ["100.64.0.1"], found.namespace)
        link = await found.links.once(lambda link: rows(link)[0][3] == "Connected", "for-b")
        assert rows(link) == [(pair.namespace, ["here"], "external/sdwan", "Connected")]
        # The Service's own namespace has exactly the clusters of the agent's own link.
        await routed(pair, pair.there, ["100.64.0.1"])
        await routed(pair, pair.here, [])

        # Clusters that a link no longer requests are removed, and those of another link stay.
        await found.link("for-b-too", "web", (pair.namespace, found.namespace))
        await routed(pair, pair.there, ["100.64.0.1"] * 2, found.namespace)
        ours = {"spec": {"to": [{"cluster": pair.namespace}]}}
        await pair.here.patch(SERVICE_LINKS, "for-b", ours, pair.namespace)
        await routed(pair, pair.there, ["100.64.0.1"], found.namespace)
        await routed(pair, pair.there, ["100.64.0.1"] * 2)

        # The status of a deleted link is no longer written, and the others are handled as before.
        await pair.here.delete(SERVICE_LINKS, "for-b-too", pair.namespace)
        await routed(pair, pair.there, [], found.namespace)
        await pair.here.patch(SERVICE_LINKS, "for-b", {"spec": {"to": None}}, pair.namespace)
        link = await found.links.once(lambda link: len(rows(link)) == 1 and rows(link)[0][3] == "Connected", "for-b")
        await routed(pair, pair.there, ["100.64.0.1"] * 2)
