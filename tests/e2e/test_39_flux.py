"""Promise 39: Flux's kustomize-controller detects no drift in objects that it applied, even if pods are
elected.

It runs as a process in the network of the source. It applies the same artifact to a namespace that elects by
default and to a plain one.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agent.api.kinds import SERVICES, Kind
from hack.lab.operators.programs import KUSTOMIZE
from tests.e2e import manifests, shared
from tests.e2e.fleet import Fleet, condition
from tests.e2e.manifests import DEPLOYMENTS
from tests.e2e.operators import Places, artifact, operator, places
from tests.e2e.test_11_elect_by_default import stock

pytestmark = [pytest.mark.seldom, pytest.mark.timeout(600)]

Raw = dict[str, Any]

SOURCES = Kind("source.toolkit.fluxcd.io", "v1", "gitrepositories", "GitRepository")
KUSTOMIZATIONS = Kind("kustomize.toolkit.fluxcd.io", "v1", "kustomizations", "Kustomization")
NAME = "web"
REPLICAS = 2
INTERVAL_SECONDS, INTERVALS = 10, 3
PATIENCE_SECONDS = 120.0
APPLIED = "server-side apply completed"
FLAGS = ("--metrics-addr=0", "--health-addr=0", "--log-encoding=json")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def log(fleet: Fleet) -> AsyncIterator[Path]:
    """Run kustomize-controller for the source, and return the path of its log."""
    async with operator(fleet, KUSTOMIZE, FLAGS) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="session")
async def both(fleet: Fleet, log: Path, tmp_path: Path) -> AsyncIterator[Places]:
    """Both namespaces, each with a Kustomization of the same artifact, whose objects are deleted afterwards."""
    deployment = stock(manifests.deployment(NAME, REPLICAS))
    content = {"service.yaml": shared.service(NAME), "deployment.yaml": deployment}
    async with places(fleet) as found, artifact(fleet, tmp_path, content) as status:
        for namespace in found:
            await create(fleet, namespace, status)
        yield found
        for namespace in found:
            # Its finalizer needs the running controller, which deletes the applied objects.
            await fleet.source.delete(KUSTOMIZATIONS, NAME, namespace)
            await fleet.gone(KUSTOMIZATIONS, NAME, namespace)
            await fleet.source.delete(SOURCES, NAME, namespace)


async def create(fleet: Fleet, namespace: str, artifact: Raw) -> None:
    """Create a source that has an artifact, as source-controller reports it, and the Kustomization that applies it."""
    head = {"metadata": {"name": NAME}}
    source = {"apiVersion": SOURCES.api_version, "kind": SOURCES.name, **head}
    url = "https://git.example.com/web"
    await fleet.source.create(SOURCES, {**source, "spec": {"interval": "1h", "url": url}}, namespace)
    await fleet.source.patch(SOURCES, NAME, {"status": {"artifact": artifact}}, namespace, sub="status")
    spec = {
        "interval": f"{INTERVAL_SECONDS}s",
        "path": "./",
        "prune": True,
        "wait": True,
        "sourceRef": {"kind": SOURCES.name, "name": NAME},
        "targetNamespace": namespace,
    }
    made = {"apiVersion": KUSTOMIZATIONS.api_version, "kind": KUSTOMIZATIONS.name, **head, "spec": spec}
    await fleet.source.create(KUSTOMIZATIONS, made, namespace)


def outcomes(log: Path, namespace: str) -> list[dict[str, str]]:
    """Return the outcome of each object, for each time that the controller has applied a namespace's artifact."""
    found = []
    for line in log.read_text().splitlines():
        if APPLIED not in line:
            continue
        entry = json.loads(line)
        if entry["namespace"] == namespace:
            found.append({name.split("/")[0]: outcome for name, outcome in entry["output"].items()})
    return found


async def test_what_was_applied_is_unchanged_at_every_interval(fleet: Fleet, log: Path, both: Places) -> None:
    want = [{DEPLOYMENTS.name: "unchanged", SERVICES.name: "unchanged"}] * INTERVALS

    async def rests(namespace: str) -> None:
        await fleet.running(namespace, NAME, REPLICAS)

        async def ready() -> bool:
            found = await fleet.source.get(KUSTOMIZATIONS, NAME, namespace)
            return condition(found, "Ready").get("status") == "True"

        await fleet.until(f"the Kustomization in {namespace} is Ready", ready, seconds=PATIENCE_SECONDS)
        if namespace == both.elected:
            await shared.known_everywhere(fleet, namespace, NAME, REPLICAS)
        await asyncio.sleep(INTERVAL_SECONDS)
        service = await fleet.source.get(SERVICES, NAME, namespace)
        before = len(outcomes(log, namespace))

        async def applied() -> bool:
            return len(outcomes(log, namespace)) >= before + INTERVALS

        await fleet.until(f"{namespace} has been applied again", applied, seconds=PATIENCE_SECONDS)
        assert outcomes(log, namespace)[before : before + INTERVALS] == want, namespace
        assert await fleet.source.get(SERVICES, NAME, namespace) == service
        # The controller sets Ready to Unknown at the beginning of each interval.
        await fleet.until(f"the Kustomization in {namespace} is Ready again", ready, seconds=PATIENCE_SECONDS)

    await asyncio.gather(*map(rests, both))
