"""Promise 22: if a namespace shares its Services, pods in targets also reach Services whose pods stay in the
source."""

from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import NAMESPACES, PODS, SERVICES, SOURCES
from tests.cli.command import flotilla
from tests.e2e import manifests, shared
from tests.e2e.fleet import Fleet, on_virtual_node
from tests.e2e.shared import has, service

Raw = dict[str, Any]

TARGETS = ("us", "eu")
SHARE = names.SHORT_PREFIX + names.SHARE_SERVICES
BY_DEFAULT = names.SHORT_PREFIX + names.ELECT_BY_DEFAULT


async def annotate(fleet: Fleet, namespace: str, **annotations: str | None) -> None:
    await fleet.source.patch(NAMESPACES, namespace, {"metadata": {"annotations": annotations}})


async def at_home(fleet: Fleet, namespace: str, name: str) -> str:
    """Create a pod that stays in the source; return its address."""
    home = manifests.pod(name, elect=None, annotations={names.SHORT_PREFIX + names.ELECT: "false"})
    await fleet.source.create(PODS, home, namespace)
    (pod,) = await fleet.running(namespace, name, 1)
    assert not on_virtual_node(pod)
    return str(pod["status"]["podIP"])


async def found_there(fleet: Fleet, namespace: str, name: str, address: str) -> None:
    """Wait until the targets route a Service's traffic to this address only."""

    async def probe() -> bool:
        return all([await shared.ready(fleet, namespace, name, cluster) == [address] for cluster in TARGETS])

    await fleet.until(f"targets find {name} at home", probe, about=namespace)


def as_it_was(found: Raw) -> bool:
    return "annotations" not in found["metadata"] and "labels" not in found["metadata"]


@pytest.mark.parametrize("annotation", [BY_DEFAULT, SHARE])
async def test_a_service_whose_pods_stay_here_is_found_from_targets_until_its_namespace_says_no(
    fleet: Fleet, namespace: str, annotation: str
) -> None:
    await fleet.source.create(SERVICES, service("db"), namespace)
    address = await at_home(fleet, namespace, "db")
    await annotate(fleet, namespace, **{annotation: "true"})
    await found_there(fleet, namespace, "db", address)
    original = await fleet.source.get(SERVICES, "db", namespace)
    assert original["spec"]["selector"] == {"app": "db"}
    assert names.ANNOTATION_ORIGINAL_SELECTOR not in original["metadata"]["annotations"]
    await annotate(fleet, namespace, **{SHARE: "false"})
    await has(fleet, "cd", SERVICES, namespace, "db", as_it_was)
    await shared.gone(fleet, SERVICES, namespace, "db", TARGETS)
    await shared.no_slices(fleet, namespace, "db", TARGETS)


@pytest.mark.full("A variant of the test that shares a namespace's Services.")
async def test_what_is_shared_stays_as_long_as_pods_there_may_use_it(fleet: Fleet, namespace: str) -> None:
    await fleet.source.create(SERVICES, service("db"), namespace)
    await fleet.source.create(SERVICES, service("own", {"multicluster/global": "false"}), namespace)
    await fleet.source.create(PODS, manifests.pod("app"), namespace)
    await fleet.running(namespace, "app", 1)
    await annotate(fleet, namespace, **{SHARE: "true"})
    await has(fleet, "us", SERVICES, namespace, "db", bool)
    assert await shared.is_gone(fleet, "us", SERVICES, namespace, "own")
    await annotate(fleet, namespace, **{SHARE: None})
    # Later Services are not shared. Once `asked` is shared, the controller has observed the removed annotation.
    await fleet.source.create(SERVICES, service("later"), namespace)
    await fleet.source.create(SERVICES, service("asked", {"multicluster/global": "true"}), namespace)
    await has(fleet, "us", SERVICES, namespace, "asked", bool)
    assert await shared.is_gone(fleet, "us", SERVICES, namespace, "later")
    await has(fleet, "us", SERVICES, namespace, "db", bool)
    await fleet.source.delete(PODS, "app", namespace)
    await has(fleet, "cd", SERVICES, namespace, "db", as_it_was)
    await shared.gone(fleet, SERVICES, namespace, "db", TARGETS)


@pytest.mark.full("A variant of the test that shares a namespace's Services.")
async def test_a_target_that_does_not_share_endpoints_has_the_name_and_nothing_fails(fleet: Fleet) -> None:
    async with fleet.namespace(("us",)) as namespace:
        await fleet.clients["us"].patch(SOURCES, "cd", {"spec": {"allow": []}}, namespace)
        await annotate(fleet, namespace, **{SHARE: "true"})
        await fleet.source.create(SERVICES, service("db"), namespace)
        await has(fleet, "us", SERVICES, namespace, "db", bool)
        await fleet.source.create(PODS, manifests.pod("app"), namespace)
        await fleet.running(namespace, "app", 1)


@pytest.mark.full("A variant of the test that shares a namespace's Services.")
async def test_doctor_names_services_that_pods_mention_and_their_targets_do_not_have(
    fleet: Fleet, namespace: str
) -> None:
    await fleet.source.create(SERVICES, service("db"), namespace)
    app = manifests.pod("app")
    app["spec"]["containers"][0]["args"] = [f"--database=postgres://db.{namespace}.svc:5432/orders"]
    await fleet.source.create(PODS, app, namespace)
    await fleet.running(namespace, "app", 1)
    doctor = ("doctor", "--kubeconfig", str(fleet.sandbox["cd"].kubeconfig))

    async def said(level: str) -> bool:
        _, output, _ = await flotilla(*doctor)
        lines = [line for line in output.splitlines() if f"Service {namespace}/db: " in line]
        return [line.split()[0] for line in lines] == [level] if level else not lines

    await fleet.until("doctor names the Service", lambda: said("WARN"), about=namespace)
    await annotate(fleet, namespace, **{SHARE: "true"})
    await fleet.until("doctor is content", lambda: said(""), about=namespace)
