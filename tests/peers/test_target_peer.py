"""A Flotilla source with a target that supports only the minimum of the wire contract, and polls once a second."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from agent.api.kinds import CHAPERONS, CLUSTER_SUMMARIES, NAMESPACES, PODS, SECRETS, TARGETS
from hack.lab.sandbox import SandboxError, kubeconfig
from hack.lab.sandbox.objects import apply
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, condition, token_of
from tests.e2e.manifests import DEPLOYMENTS
from tests.e2e.rights import Asked, asked
from tests.peers.conftest import without_agent
from tests.peers.contract import ALLOWED, CANDIDATE, RESERVED, grant
from tests.peers.target import TargetPeer
from tests.peers.writes import while_idle

Raw = dict[str, Any]

IDLE_SECONDS = 3.0


@pytest_asyncio.fixture(scope="module", loop_scope="session", autouse=True)
async def peer(fleet: Fleet) -> AsyncIterator[TargetPeer]:
    """Double in t."""
    async with without_agent(fleet, "t"), TargetPeer.serving(fleet, "t") as peer:
        yield peer


@pytest_asyncio.fixture(loop_scope="session")
async def namespace(fleet: Fleet) -> AsyncIterator[str]:
    """Namespace of a whose pods run in t."""
    async with shared(fleet, "a") as name:
        yield name


@contextlib.asynccontextmanager
async def shared(fleet: Fleet, *sources: str) -> AsyncIterator[str]:
    """Namespace from which some sources may use t. It is empty at the end."""
    async with fleet.namespace((), source=sources[0]) as name:
        try:
            for source in sources:
                await fleet.clients[source].patch(
                    NAMESPACES, name, {"metadata": {"labels": {"multicluster-scheduler": "enabled"}}}
                )
                await join(fleet, name, source)
            yield name
        finally:
            for source in (*sources[1:], sources[0]):
                await fleet.leave(name, source)
        await fleet.all_gone()


async def join(fleet: Fleet, namespace: str, source: str) -> None:
    """Make t a Target of a source, with the permissions that Admiralty grants."""
    t = fleet.clients["t"]
    await grant(t, namespace, source)
    authority = (fleet.sandbox.directory / "t" / "pki" / "ca.crt").read_bytes()
    token = await token_of(t, source, namespace)
    text = kubeconfig.render("t", fleet.sandbox["t"].server, authority, token=token)
    await apply(fleet.clients[source], SECRETS, manifests.secret("t", namespace, text))
    spec = {"kubeconfigSecret": {"name": "t"}}
    await apply(fleet.clients[source], TARGETS, manifests.ours("Target", "t", namespace, spec))
    await fleet.ready(namespace, "t", source=source)


async def empty(fleet: Fleet, namespace: str) -> None:
    await fleet.until("both sides are empty", lambda: fleet.is_empty(namespace), about=namespace)


@pytest.mark.full("A variant of the protocol with a target of Admiralty.")
async def test_the_summary_is_the_peers_and_the_target_is_ready_though_nothing_tells_of_its_agent(
    fleet: Fleet, namespace: str
) -> None:
    summary = await fleet.clients["t"].get(CLUSTER_SUMMARIES, "singleton")
    assert "annotations" not in summary["metadata"]
    target = await fleet.source.get(TARGETS, "t", namespace)
    assert condition(target, "Ready")["status"] == "True"


async def test_pods_run_statuses_come_home_and_deletion_empties_both(fleet: Fleet, namespace: str) -> None:
    await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", 4), namespace)
    await fleet.running(namespace, "web", 4)
    await fleet.agree(namespace)
    await fleet.source.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 2}}, namespace)
    await fleet.running(namespace, "web", 2)
    await fleet.agree(namespace)
    await fleet.source.delete(DEPLOYMENTS, "web", namespace)
    await empty(fleet, namespace)


@pytest.mark.full("A variant of the protocol with a target of Admiralty.")
async def test_a_pod_in_mode_reserve_is_reserved_allowed_and_runs_in_the_peer(fleet: Fleet, namespace: str) -> None:
    await fleet.source.create(PODS, manifests.pod("a", annotations={"multicluster/scheduling": "reserve"}), namespace)
    await fleet.running(namespace, "a", 1)
    await fleet.agree(namespace)
    (chaperon,) = await fleet.clients["t"].list(CHAPERONS, namespace)
    assert chaperon["spec"]["schedulerName"] == CANDIDATE
    assert {RESERVED, ALLOWED} <= chaperon["metadata"]["annotations"].keys()
    await fleet.source.delete(PODS, "a", namespace)
    await empty(fleet, namespace)


@pytest.mark.full("A variant of the protocol with a target of Admiralty.")
async def test_logs_and_exec_are_asked_for_with_the_rights_that_the_peer_grants(fleet: Fleet, namespace: str) -> None:
    await fleet.source.create(PODS, manifests.pod("a"), namespace)
    await fleet.running(namespace, "a", 1)
    for sub, command in (("log", ("logs", "a")), ("exec", ("exec", "a", "--", "true"))):
        # The peer's nodes run no containers, so no output exists: only access is tested.
        with contextlib.suppress(SandboxError):
            await fleet.kubectl("a", "-n", namespace, *command)
        granted = [each for each in asked(fleet.sandbox.directory) if is_granted(each, namespace, sub)]
        assert granted, f"the peer does not let our agent have pods/{sub}"


def is_granted(request: Asked, namespace: str, sub: str) -> bool:
    """Return whether the agent of a requested this of a pod from the peer, with permission."""
    what, status = request.object_ref, request.response_status
    return (
        request.user.username == f"system:serviceaccount:{namespace}:a"
        and (what is not None and (what.resource, what.subresource) == ("pods", sub))
        and (status is not None and status.code != 403)
    )


@pytest.mark.seldom
async def test_a_job_completes_in_the_peer(fleet: Fleet, namespace: str) -> None:
    await fleet.source.create(manifests.JOBS, manifests.job("once", 2), namespace)

    async def complete() -> bool:
        job = await fleet.source.get(manifests.JOBS, "once", namespace)
        return bool(condition(job, "Complete").get("status") == "True" and job["status"]["succeeded"] == 2)

    await fleet.until("the Job is complete", complete, about=namespace)


@pytest.mark.full("A variant of the protocol with a target of Admiralty.")
async def test_nobody_writes_when_nothing_happens(fleet: Fleet, namespace: str) -> None:
    annotations = {"team": "x"}
    await fleet.source.create(PODS, manifests.pod("a", annotations=annotations), namespace)
    await fleet.running(namespace, "a", 1)
    ((_, delegate),) = (await fleet.delegates(namespace)).values()
    here, there = {"mine": "1", "team": "y"}, {"cni": "2"}
    labels = {"added": "later"}
    await fleet.source.patch(PODS, "a", {"metadata": {"annotations": here, "labels": labels}}, namespace)
    name = delegate["metadata"]["name"]
    await fleet.clients["t"].patch(PODS, name, {"metadata": {"annotations": there}}, namespace)

    async def home() -> bool:
        annotations = (await fleet.source.get(PODS, "a", namespace))["metadata"]["annotations"]
        return bool(annotations.get("cni") == "2" and annotations.get("team") == "y" and annotations["mine"] == "1")

    await fleet.until("the peer's annotation is home", home, about=namespace)
    await fleet.agree(namespace)
    assert await while_idle(fleet, IDLE_SECONDS) == {}
    assert await home(), "an annotation that only the proxy pod has was lost"
    (chaperon,) = await fleet.clients["t"].list(CHAPERONS, namespace)
    assert "multicluster/live-changes" not in chaperon["metadata"]["annotations"]


@pytest.mark.full("A variant of the protocol with a target of Admiralty.")
async def test_a_delegate_lost_in_the_peer_is_replaced(fleet: Fleet, namespace: str) -> None:
    await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", 1), namespace)
    (before,) = await fleet.running(namespace, "web", 1)
    ((_, delegate),) = (await fleet.delegates(namespace)).values()
    await fleet.clients["t"].delete(PODS, delegate["metadata"]["name"], namespace)

    async def replaced() -> bool:
        there = [pod["metadata"]["uid"] for pod in await fleet.pods(namespace, "web")]
        return len(there) == 1 and there != [before["metadata"]["uid"]]

    await fleet.until("there is another pod", replaced, about=namespace)
    await fleet.running(namespace, "web", 1)
    await fleet.agree(namespace)


@pytest.mark.seldom
async def test_two_of_our_sources_with_equal_names_leave_each_other_alone(fleet: Fleet) -> None:
    async with shared(fleet, "a", "b") as namespace:
        for source in ("a", "b"):
            await fleet.clients[source].create(DEPLOYMENTS, manifests.deployment("web", 3), namespace)
            await fleet.clients[source].create(PODS, manifests.pod("lone"), namespace)
        for source in ("a", "b"):
            await fleet.running(namespace, "web", 3, source=source)
            await fleet.running(namespace, "lone", 1, source=source)
        of_b = {pod["metadata"]["uid"] for pod in await fleet.pods(namespace, source="b")}
        before = {uid: pod["metadata"]["uid"] for uid, (_, pod) in (await fleet.delegates(namespace)).items()}
        await fleet.source.delete(DEPLOYMENTS, "web", namespace)
        await fleet.source.delete(PODS, "lone", namespace)

        async def only_of_b() -> bool:
            return (await fleet.delegates(namespace)).keys() == of_b

        await fleet.until("a's delegates are gone", only_of_b, about=namespace)
        await fleet.sandbox.restart("a", "agent")
        await fleet.source.create(PODS, manifests.pod("again"), namespace)
        await fleet.running(namespace, "again", 1)
        after = {uid: pod["metadata"]["uid"] for uid, (_, pod) in (await fleet.delegates(namespace)).items()}
        assert {uid: after.get(uid) for uid in of_b} == {uid: before[uid] for uid in of_b}


@pytest.mark.full("A variant of the protocol with a target of Admiralty.")
@pytest.mark.parametrize(
    "labels",
    [
        pytest.param({}, id="v0.10", marks=pytest.mark.seldom),
        pytest.param({"multicluster.admiralty.io/parent-cluster-name": "same"}, id="same"),
    ],
)
async def test_chaperons_of_an_admiralty_source_are_no_orphans_of_ours(
    fleet: Fleet, namespace: str, labels: dict[str, str]
) -> None:
    t = fleet.clients["t"]
    theirs: Raw = {
        "apiVersion": CHAPERONS.api_version,
        "kind": CHAPERONS.name,
        "metadata": {"name": "theirs", "labels": {"multicluster.admiralty.io/parent-uid": "unknown", **labels}},
        "spec": manifests.pod_spec(),
    }
    made = await t.create(CHAPERONS, theirs, namespace)
    # A pod that is created and deleted shows that the agent has reconciled, also as a new process.
    await fleet.sandbox.restart("a", "agent")
    await fleet.source.create(PODS, manifests.pod("a"), namespace)
    await fleet.running(namespace, "a", 1)
    await fleet.source.delete(PODS, "a", namespace)
    await fleet.gone(PODS, "a", namespace)
    assert (await t.get(CHAPERONS, "theirs", namespace))["metadata"]["uid"] == made["metadata"]["uid"]
    assert (await t.get(PODS, "theirs", namespace))["status"]["phase"] == "Running"
    await t.delete(CHAPERONS, "theirs", namespace)
