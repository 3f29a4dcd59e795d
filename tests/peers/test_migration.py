"""The migration page, step by step: replace a target, replace a source, and revert a source."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agent.api.kinds import (
    CHAPERONS,
    CLUSTER_ROLE_BINDINGS,
    NODES,
    PODS,
    ROLE_BINDINGS,
    SECRETS,
    SOURCES,
    TARGETS,
)
from agent.api.names import ANNOTATION_APPLIED_LABELS, FINALIZER_DRAIN, finalizer, virtual_node
from agent.kube.errors import NotFound
from hack.lab.sandbox.objects import apply, connect
from tests.cli.command import flotilla
from tests.e2e import manifests
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import DEPLOYMENTS
from tests.peers.conftest import without_agent
from tests.peers.source import Goal, SourcePeer
from tests.peers.target import TargetPeer
from tests.peers.test_takeover import adopted, made_by_admiralty
from tests.peers.test_target_peer import join

pytestmark = pytest.mark.full("The tests of a source and of a target of Admiralty keep the protocol.")

Raw = dict[str, Any]


async def clusters_of(fleet: Fleet, namespace: str, app: str, count: int) -> set[str]:
    """Return the clusters in which the pods of an app run, once this many run."""
    pods = await fleet.running(namespace, app, count)
    found = await fleet.delegates(namespace)
    return {found[pod["metadata"]["uid"]][0] for pod in pods}


async def test_a_target_is_emptied_swapped_and_used_again_by_the_credentials_that_it_gave_before(fleet: Fleet) -> None:
    t = fleet.clients["t"]
    async with fleet.namespace(("b",), source="a") as namespace:
        node = virtual_node(namespace, "t")
        source: Raw = {"metadata": {"name": "a"}, "spec": {"serviceAccountName": "a"}}
        async with without_agent(fleet, "t"), TargetPeer.serving(fleet, "t"):
            await join(fleet, namespace, "a")
            await fleet.source.create(DEPLOYMENTS, manifests.spread_out("web", 6), namespace)
            assert await clusters_of(fleet, namespace, "web", 6) == {"t", "b"}
            # 1. In every source, empty it.
            await fleet.kubectl("a", "drain", node, "--ignore-daemonsets", "--timeout=90s")
            assert await clusters_of(fleet, namespace, "web", 6) == {"b"}
            await fleet.until("t is empty", lambda: is_empty(fleet, "t", namespace), about=namespace)
            # 3. Uninstall Admiralty, with its Sources and their dependents; accounts and their tokens stay.
            await t.delete(ROLE_BINDINGS, "admiralty-source-a", namespace)
            await t.delete(CLUSTER_ROLE_BINDINGS, f"admiralty-source-{namespace}-a-cluster-summary-viewer")
        # Flotilla's agent runs; the saved objects are applied.
        made = {"apiVersion": SOURCES.api_version, "kind": "Source", **source}
        await apply(t, SOURCES, {**made, "metadata": {"name": "a", "namespace": namespace}})
        await fleet.ready(namespace, "t")
        # 4. In every source.
        await fleet.kubectl("a", "uncordon", node)
        await fleet.source.create(DEPLOYMENTS, manifests.spread_out("more", 6), namespace)
        count, clusters = 6, await clusters_of(fleet, namespace, "more", 6)
        while "t" not in clusters and count < 12:  # pods may be placed before the agent observes the uncordon
            count += 1
            await fleet.source.patch(DEPLOYMENTS, "more", {"spec": {"replicas": count}}, namespace)
            clusters = await clusters_of(fleet, namespace, "more", count)
        assert "t" in clusters
        await fleet.agree(namespace)
    await fleet.all_gone()


async def is_empty(fleet: Fleet, cluster: str, namespace: str) -> bool:
    return not await fleet.clients[cluster].list(CHAPERONS, namespace)


@pytest_asyncio.fixture(loop_scope="session")
async def namespace(fleet: Fleet) -> AsyncIterator[str]:
    """Namespace of a with the target t."""
    async with fleet.namespace(("t",), source="a", enabled=False) as name:
        yield name
    await fleet.all_gone()


@contextlib.asynccontextmanager
async def admiralty(fleet: Fleet, namespace: str, directory: Path) -> AsyncIterator[None]:
    """Run Admiralty's agent in a, with the Target t."""
    file = directory / "t.kubeconfig"
    file.write_text(await fleet.kubeconfig(namespace, "t", "a"))
    async with without_agent(fleet, "a"), connect(file, name="t").session as session:
        goal = Goal(type(fleet.source)(session), virtual_node(namespace, "t"), finalizer(namespace, "t"))
        async with SourcePeer.serving(fleet.source, namespace, {"t": goal}, reserve=False):
            yield


@pytest.mark.seldom
async def test_a_source_is_swapped_without_touching_its_delegates_and_goes_back(
    fleet: Fleet, namespace: str, tmp_path: Path
) -> None:
    named = ("one", "two", "three")
    saved = await fleet.source.get(TARGETS, "t", namespace)
    async with admiralty(fleet, namespace, tmp_path):
        await made_by_admiralty(fleet, namespace, *named)
        for name in named:
            await fleet.running(namespace, name, 1)
        before = {uid: pod["metadata"]["uid"] for uid, (_, pod) in (await fleet.delegates(namespace)).items()}
        await uninstalled(fleet, namespace)
    # Flotilla's agent runs. The saved objects are applied.
    await apply(fleet.source, TARGETS, manifests.ours("Target", "t", namespace, saved["spec"]))
    await fleet.ready(namespace, "t")
    await fleet.until("the chaperons are ours", lambda: adopted(fleet, namespace), about=namespace)
    await fleet.agree(namespace)
    after = {uid: pod["metadata"]["uid"] for uid, (_, pod) in (await fleet.delegates(namespace)).items()}
    assert after == before
    await fleet.source.delete(PODS, "one", namespace)
    await fleet.until("its delegate goes with it", lambda: has_delegates(fleet, namespace, 2), about=namespace)
    await goes_back(fleet, namespace, tmp_path)
    # Repeated, so that leftovers are removed.
    await apply(fleet.source, TARGETS, manifests.ours("Target", "t", namespace, saved["spec"]))
    await fleet.ready(namespace, "t")
    for name in ("two", "three"):
        with contextlib.suppress(NotFound):
            await fleet.source.delete(PODS, name, namespace)
    await fleet.until("both sides are empty", lambda: fleet.is_empty(namespace), about=namespace)


async def has_delegates(fleet: Fleet, namespace: str, count: int) -> bool:
    return len(await fleet.delegates(namespace)) == count


async def uninstalled(fleet: Fleet, namespace: str) -> None:
    """Leave the state after `helm uninstall admiralty`: no Targets or finalizers of its own; Secrets, nodes and
    pods stay."""
    for pod in await fleet.source.list(PODS, namespace):
        await fleet.source.patch(PODS, pod["metadata"]["name"], {"metadata": {"finalizers": None}}, namespace)
    for kind in (TARGETS, SECRETS):
        # Added by Flotilla's agent, which ran before this test.
        await fleet.source.patch(kind, "t", {"metadata": {"finalizers": None}}, namespace)
    await fleet.source.delete(TARGETS, "t", namespace)
    # Admiralty's node lacks this mark of Flotilla, too.
    unmarked = {"metadata": {"annotations": {ANNOTATION_APPLIED_LABELS: None}}}
    await fleet.source.patch(NODES, virtual_node(namespace, "t"), unmarked)


async def goes_back(fleet: Fleet, namespace: str, directory: Path) -> None:
    """Revert the source: without Flotilla's agent, a Target can be deleted once its special finalizer is removed."""
    async with admiralty(fleet, namespace, directory):
        code, said, errors = await flotilla(
            "uninstall", "--finalizers", f"--kubeconfig={fleet.sandbox['a'].kubeconfig}"
        )
        assert code == 0, errors
        assert "took" in said
        for kind in (TARGETS, SECRETS):
            kept = (await fleet.source.get(kind, "t", namespace))["metadata"].get("finalizers") or []
            assert FINALIZER_DRAIN not in kept
        await fleet.source.delete(TARGETS, "t", namespace)
        await fleet.gone(TARGETS, "t", namespace)
        assert await has_delegates(fleet, namespace, 2)
