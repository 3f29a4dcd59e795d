"""ManifestWorks under faults: the agent is killed between any two writes, the hub is away, or changes its Secret."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.api.kinds import CONFIGMAPS, MANIFEST_WORKS, PODS, ROLE_BINDINGS, ROLES
from agent.api.ownroles import AGENT, ELECT, TARGET, TELL
from agent.api.placementroles import KLUSTERLET
from agent.api.roles import rules
from agent.kube import write_guard
from agent.kube.config import load
from agent.kube.errors import NotFound
from tests.controllers.limited import limited
from tests.controllers.target_links import kubeconfig
from tests.klusterlet.conftest import ACCOUNT, Pair, kubeconfig_with_files
from tests.kube.relay import Relay

pytestmark = pytest.mark.cluster

MOST_WRITES = 30


class Guard:
    """Permits some writes of an agent, and then none."""

    def __init__(self, permitted: int) -> None:
        self.left = permitted
        self.exhausted = asyncio.Event()

    def leads(self) -> bool:
        """Return whether one more write is permitted."""
        if self.left == 0:
            self.exhausted.set()
            return False
        self.left -= 1
        return True


@contextlib.asynccontextmanager
async def mortal(pair: Pair, guard: Guard) -> AsyncIterator[None]:
    """Run the agent with its last permitted write; the writes of the test itself are not counted."""
    write_guard.fence(guard.leads)
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(pair.at_work())
        write_guard.fence(lambda: True)
        yield


async def wait_for_either(done: asyncio.Future[None] | asyncio.Task[None], guard: Guard) -> bool:
    """Wait until a task is done or no write is permitted any longer; return whether it is done."""
    exhausted = asyncio.create_task(guard.exhausted.wait())
    await asyncio.wait((done, exhausted), return_when=asyncio.FIRST_COMPLETED)
    is_done = done.done()
    for task in (done, exhausted):
        task.cancel()
    await asyncio.gather(done, exhausted, return_exceptions=True)
    return is_done


async def test_killed_between_any_two_writes_nothing_is_lost_and_nothing_left(pair: Pair) -> None:
    async def applied() -> None:
        await pair.said("w", "Applied", status="True")
        await pair.copy(CONFIGMAPS, "a", lambda obj: obj["data"] == {"a": "1"})

    for permitted in range(MOST_WRITES):
        guard = Guard(permitted)
        await pair.create("w", pair.config("a"), pair.config("b"))
        async with mortal(pair, guard):
            survived = await wait_for_either(asyncio.create_task(applied()), guard)
        # The second life gets another ManifestWork: what the first one has begun must be known all the same.
        await pair.edit("w", pair.config("a"))
        async with pair.at_work():
            await applied()
            await pair.lacks(CONFIGMAPS, "b")
            await pair.delete("w")
            await pair.gone("w")
            await pair.lacks(CONFIGMAPS, "a")
        assert await pair.applied("w") is None
        if survived:
            break
    assert survived
    assert permitted >= 6


async def test_killed_during_deletion_nothing_is_left(pair: Pair) -> None:
    for permitted in range(MOST_WRITES):
        async with pair.at_work():
            await pair.create("w", pair.config("a"), pair.config("b"))
            await pair.said("w", "Applied", status="True")
        await pair.delete("w")
        guard = Guard(permitted)
        async with mortal(pair, guard):
            survived = await wait_for_either(asyncio.create_task(pair.gone("w")), guard)
        async with pair.at_work():
            await pair.gone("w")
            for name in ("a", "b"):
                await pair.lacks(CONFIGMAPS, name)
        assert await pair.applied("w") is None
        if survived:
            break
    assert survived
    assert permitted >= 5


async def test_while_the_hub_is_away_objects_are_corrected_and_nothing_is_evicted(pair: Pair) -> None:
    async with Relay.started(load(str(pair.clusters["hub"].kubeconfig))) as relay:
        await pair.join(
            kubeconfig=kubeconfig(pair.clusters["hub"], server=relay.connection.server, user={"token": "x"})
        )
        async with pair.at_work(eviction_seconds=0.0):
            await pair.create("w", pair.config("a"))
            await pair.said("w", "Applied", status="True")
            relay.cut()
            await pair.member.patch(CONFIGMAPS, "a", {"data": {"a": "other"}}, pair.namespace)
            await pair.copy(CONFIGMAPS, "a", lambda obj: obj["data"] == {"a": "1"})
            await pair.lose("w")
            await asyncio.sleep(2)
            await pair.copy(CONFIGMAPS, "a")
            relay.mend()
            await pair.lacks(CONFIGMAPS, "a")


async def test_a_replaced_secret_leads_to_another_connection_with_files_as_keys(pair: Pair) -> None:
    await pair.join(kubeconfig="nonsense")
    async with pair.at_work():
        await pair.create("w", pair.config("a"))
        document, files = kubeconfig_with_files(pair.clusters["hub"].kubeconfig.read_text())
        await pair.join(kubeconfig=document, **files)
        await pair.said("w", "Applied", status="True")
        await pair.join(kubeconfig=document, **files, **{"agent-name": "agent-2"})
        await pair.edit("w", pair.config("a", {"b": "2"}))
        await pair.copy(CONFIGMAPS, "a", lambda obj: obj["data"] == {"b": "2"})


async def test_the_rights_of_a_member_in_hub_and_cluster_are_enough(pair: Pair, tmp_path: Path) -> None:
    """Rights of Open Cluster Management's role in the hub; the agent's own, and its account's, in the cluster."""
    group = MANIFEST_WORKS.group
    in_hub = [
        {"apiGroups": [group], "resources": ["manifestworks"], "verbs": ["get", "list", "watch", "update", "patch"]},
        {"apiGroups": [group], "resources": ["manifestworks/status"], "verbs": ["patch", "update"]},
    ]
    features = {KLUSTERLET, TARGET, TELL, ELECT}
    own = rules([grant for grant in AGENT.grants[""] if grant.feature in features])
    verbs = ["get", "list", "watch", "create", "update", "patch", "delete"]
    impersonation = {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"]}
    in_cluster = [*own, {**impersonation, "resourceNames": [ACCOUNT]}]
    await pair.disempower()
    role = {
        "metadata": {"name": "configs"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}],
    }
    await pair.member.create(ROLES, role, pair.namespace)
    bound = {
        "metadata": {"name": "configs"},
        "roleRef": {"apiGroup": ROLES.group, "kind": "Role", "name": "configs"},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": pair.namespace}],
    }
    await pair.member.create(ROLE_BINDINGS, bound, pair.namespace)
    (tmp_path / "hub").mkdir()
    (tmp_path / "member").mkdir()
    async with (
        limited(pair.clusters["hub"], pair.hub, pair.namespace, tmp_path / "hub", in_hub) as hub,
        limited(pair.clusters["member"], pair.member, pair.namespace, tmp_path / "member", in_cluster) as member,
    ):
        await pair.join(kubeconfig=hub.kubeconfig.read_text())
        async with pair.at_work(cluster=member):
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": pair.namespace}}
            await pair.create("w", pair.config("a"), secret)
            await pair.said("w", "Applied", ordinal=0, status="True")
            await pair.said("w", "Applied", ordinal=1, status="False", message='cannot get resource "secrets"')
            await pair.member.patch(CONFIGMAPS, "a", {"data": {"a": "other"}}, pair.namespace)
            await pair.copy(CONFIGMAPS, "a", lambda obj: obj["data"] == {"a": "1"})
            await pair.delete("w")
            await pair.gone("w")
            assert await pair.applied("w") is None


async def test_without_rights_for_works_the_agents_own_rights_apply_nothing(pair: Pair) -> None:
    await pair.disempower()
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "privileged", "namespace": "kube-system"},
        "spec": {
            "containers": [{"name": "c", "image": "example.com/c", "securityContext": {"privileged": True}}],
            "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
        },
    }
    async with pair.at_work():
        await pair.create("w", pod)
        account = f"system:serviceaccount:{pair.namespace}:{ACCOUNT}"
        await pair.said("w", "Applied", ordinal=0, status="False", message=f'"{account}" cannot get resource "pods"')
        await pair.said("w", "Available", ordinal=0, status="Unknown", message="forbidden")
        with pytest.raises(NotFound):
            await pair.member.get(PODS, "privileged", "kube-system")
        await pair.delete("w")
        await pair.gone("w")
