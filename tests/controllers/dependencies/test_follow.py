"""ConfigMaps and Secrets follow their pods, from one real API server to another."""

import asyncio
import base64
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import CHAPERONS, CONFIGMAPS, EVENTS, NAMESPACES, SECRETS
from agent.dependencies.follow import FollowController
from agent.kube.config import load
from agent.model.delegatepod import chaperon
from tests.controllers.pair import Pair
from tests.kube.relay import Relay
from tests.policies import refusing
from tests.waiting import until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]

STILL_SECONDS = 1.5
"""Seconds after which an unwanted event would have happened."""


def volume(name: str, *, optional: bool | None = None) -> Raw:
    return {"name": f"v-{name}", "configMap": {"name": name} | ({} if optional is None else {"optional": optional})}


def text(value: str) -> str:
    return base64.b64encode(value.encode()).decode()


def has(**data: str) -> Any:
    return lambda copy: copy.get("data") == data


async def told(pair: Pair, kind: str, name: str, word: str) -> str:
    """Wait for a warning about an object in the source that contains this text; return its message."""

    async def probe() -> str | None:
        events = await pair.here.list(EVENTS, pair.namespace)
        about = [each for each in events if each["involvedObject"]["kind"] == kind]
        found = [each for each in about if each["involvedObject"]["name"] == name and word in each["message"]]
        return found[0]["message"] if found else None

    return await until(probe) or ""


async def versions(pair: Pair, kind: Any) -> list[str]:
    return [each["metadata"]["resourceVersion"] for each in await pair.there.list(kind, pair.namespace)]


async def test_config_maps_and_secrets_are_copied_as_they_are(pair: Pair) -> None:
    metadata = {"labels": {"app": "web"}, "annotations": {"note": "x"}}
    await pair.create(CONFIGMAPS, "files", data={"a": "1"}, binaryData={"b": text("\x00")}, metadata=metadata)
    tls = {"tls.crt": text("crt"), "tls.key": text("key")}
    original = await pair.create(SECRETS, "tls", type="kubernetes.io/tls", data=tls, immutable=True)
    async with pair.at_work(FollowController) as target:
        container = {"name": "main", "image": "busybox", "envFrom": [{"secretRef": {"name": "tls"}}]}
        pod = await pair.pod("web", volumes=[volume("files")], containers=[container])
        copy = await pair.copy(CONFIGMAPS, "files")
        assert (copy["data"], copy["binaryData"]) == ({"a": "1"}, {"b": text("\x00")})
        assert copy["metadata"]["labels"]["app"] == "web"
        assert copy["metadata"]["annotations"]["note"] == "x"
        secret = await pair.copy(SECRETS, "tls")
        assert (secret["type"], secret["data"], secret["immutable"]) == ("kubernetes.io/tls", tls, True)
        labels = secret["metadata"]["labels"]
        assert labels[names.LABEL_PARENT_UID] == original["metadata"]["uid"]
        assert labels[names.LABEL_PARENT_CLUSTER_NAME] == "here"
        assert pair.deps is not None
        assert labels[names.LABEL_PARENT_CLUSTER_UID] == pair.deps.cluster_uid
        await pair.deps.prerequisites.ensure(pod, target)
        assert await pair.here.get(SECRETS, "tls", pair.namespace) == original


async def test_what_no_pod_names_stays_at_home(pair: Pair) -> None:
    await pair.create(CONFIGMAPS, "mine", data={})
    await pair.create(CONFIGMAPS, "named", data={})
    async with pair.at_work(FollowController):
        await pair.pod("web", volumes=[volume("named")])
        await pair.copy(CONFIGMAPS, "named")
        found = {each["metadata"]["name"] for each in await pair.there.list(CONFIGMAPS, pair.namespace)}
        assert found <= {"named", "kube-root-ca.crt"}
        assert await pair.there.list(SECRETS, pair.namespace) == []


async def test_a_pod_is_held_until_what_it_needs_is_there(pair: Pair) -> None:
    async with pair.at_work(FollowController) as target:
        assert pair.deps is not None
        for number in range(20):
            await pair.create(CONFIGMAPS, f"c-{number}", data={"number": str(number)})
            pod = await pair.pod(f"web-{number}", volumes=[volume(f"c-{number}", optional=True)])
            proxies = pair.deps.proxies.informer
            key = (pair.namespace, f"web-{number}")
            await until(lambda: proxies.store.get(key))  # noqa: B023
            await pair.deps.prerequisites.ensure(pod, target)
            copy = await pair.there.get(CONFIGMAPS, f"c-{number}", pair.namespace)
            assert copy["data"] == {"number": str(number)}


async def test_what_is_missing_holds_no_pod_and_comes_when_it_appears(pair: Pair) -> None:
    async with pair.at_work(FollowController, follow_wait=60.0) as target:
        pod = await pair.pod("web", volumes=[volume("late"), volume("never", optional=True)])
        assert pair.deps is not None
        async with asyncio.timeout(20):
            await pair.deps.prerequisites.ensure(pod, target)
        await pair.create(CONFIGMAPS, "late", data={"a": "1"})
        await pair.copy(CONFIGMAPS, "late")


async def test_edits_arrive_and_nothing_is_written_without_one(pair: Pair) -> None:
    await pair.create(CONFIGMAPS, "files", data={"a": "1"}, metadata={"labels": {"old": "1"}})
    async with pair.at_work(FollowController):
        await pair.pod("web", volumes=[volume("files")])
        await pair.copy(CONFIGMAPS, "files", has(a="1"))
        patch = {"data": {"a": None, "b": "2"}, "metadata": {"labels": {"old": None, "new": "1"}}}
        await pair.here.patch(CONFIGMAPS, "files", patch, pair.namespace)
        copy = await pair.copy(CONFIGMAPS, "files", has(b="2"))
        assert copy["metadata"]["labels"].get("new") == "1"
        assert "old" not in copy["metadata"]["labels"]
        before = await versions(pair, CONFIGMAPS)
        await pair.pod("web-2", volumes=[volume("files")])
        await asyncio.sleep(STILL_SECONDS)
        assert await versions(pair, CONFIGMAPS) == before


async def test_an_immutable_original_made_again_replaces_its_copy(pair: Pair) -> None:
    await pair.create(CONFIGMAPS, "files", data={"a": "1"}, immutable=True)
    async with pair.at_work(FollowController):
        await pair.pod("web", volumes=[volume("files")])
        await pair.copy(CONFIGMAPS, "files", has(a="1"))
        await pair.here.delete(CONFIGMAPS, "files", pair.namespace)
        again = await pair.create(CONFIGMAPS, "files", data={"a": "2"}, immutable=True)
        copy = await pair.copy(CONFIGMAPS, "files", has(a="2"))
        assert copy["metadata"]["labels"][names.LABEL_PARENT_UID] == again["metadata"]["uid"]


async def test_a_copy_changed_or_deleted_by_hand_is_put_right(pair: Pair) -> None:
    await pair.create(SECRETS, "token", data={"a": text("1")})
    async with pair.at_work(FollowController):
        await pair.pod("web", imagePullSecrets=[{"name": "token"}])
        await pair.copy(SECRETS, "token")
        patch = {"data": {"a": text("hand"), "b": text("hand")}, "metadata": {"labels": {"by": "hand"}}}
        await pair.there.patch(SECRETS, "token", patch, pair.namespace)
        copy = await pair.copy(SECRETS, "token", has(a=text("1")))
        assert "by" not in copy["metadata"]["labels"]
        await pair.there.delete(SECRETS, "token", pair.namespace)
        await pair.copy(SECRETS, "token", has(a=text("1")))


async def test_a_copy_goes_with_its_original(pair: Pair) -> None:
    await pair.create(CONFIGMAPS, "files", data={})
    async with pair.at_work(FollowController, follow_linger=600.0):
        await pair.pod("web", volumes=[volume("files")])
        await pair.copy(CONFIGMAPS, "files")
        await pair.here.delete(CONFIGMAPS, "files", pair.namespace)
        await pair.gone(CONFIGMAPS, "files")


async def test_a_copy_goes_some_time_after_the_last_pod_that_needs_it(pair: Pair) -> None:
    await pair.create(CONFIGMAPS, "files", data={})
    async with pair.at_work(FollowController):
        await pair.pod("web-1", volumes=[volume("files")])
        await pair.pod("web-2", volumes=[volume("files")])
        await pair.copy(CONFIGMAPS, "files")
        await pair.end("web-1")
        await asyncio.sleep(STILL_SECONDS)
        await pair.copy(CONFIGMAPS, "files")
        await pair.end("web-2")
        await pair.gone(CONFIGMAPS, "files")


async def test_a_copy_stays_while_a_chaperon_may_use_it_although_its_pod_is_gone(pair: Pair) -> None:
    await pair.create(CONFIGMAPS, "files", data={})
    async with pair.at_work(FollowController):
        assert pair.deps is not None
        pod = await pair.pod("web", volumes=[volume("files")])
        await pair.copy(CONFIGMAPS, "files")
        manifest = chaperon(pod, cluster_name="here", cluster_uid=pair.deps.cluster_uid)
        made = await pair.there.create(CHAPERONS, manifest)
        await until(lambda: pair.deps is not None and pair.deps.chaperons.of((pair.namespace, "web")))
        await pair.end("web")
        await asyncio.sleep(STILL_SECONDS)
        await pair.copy(CONFIGMAPS, "files")
        await pair.there.delete(CHAPERONS, made["metadata"]["name"], pair.namespace)
        await pair.gone(CONFIGMAPS, "files")


@pytest.mark.parametrize("order", ["original first", "pod first"])
async def test_what_was_deleted_while_no_agent_ran_is_carried_through(pair: Pair, order: str) -> None:
    await pair.create(CONFIGMAPS, "files", data={})
    await pair.create(CONFIGMAPS, "kept", data={"a": "1"})
    async with pair.at_work(FollowController):
        await pair.pod("web", volumes=[volume("files"), volume("kept")])
        await pair.pod("other", volumes=[volume("kept")])
        await pair.copy(CONFIGMAPS, "files")
        before = (await pair.copy(CONFIGMAPS, "kept"))["metadata"]
    if order == "original first":
        await pair.here.delete(CONFIGMAPS, "files", pair.namespace)
        await pair.end("web")
    else:
        await pair.end("web")
        await pair.here.delete(CONFIGMAPS, "files", pair.namespace)
    async with pair.at_work(FollowController):
        await pair.gone(CONFIGMAPS, "files")
        await asyncio.sleep(STILL_SECONDS)
        assert (await pair.copy(CONFIGMAPS, "kept"))["metadata"] == before


async def test_an_object_in_the_way_is_left_alone_and_named_until_it_goes(pair: Pair) -> None:
    manifest = {"metadata": {"name": "files"}, "data": {"whose": "theirs"}}
    foreign = await pair.there.create(CONFIGMAPS, manifest, pair.namespace)
    await pair.create(CONFIGMAPS, "files", data={"whose": "ours"})
    await pair.create(CONFIGMAPS, "other", data={})
    async with pair.at_work(FollowController) as target:
        pod = await pair.pod("web", volumes=[volume("files"), volume("other")])
        assert pair.deps is not None
        await pair.deps.prerequisites.ensure(pod, target)
        message = await told(pair, "Pod", "web", "not ours")
        assert f"ConfigMap {pair.namespace}/files" in message
        assert "target eu" in message
        assert await told(pair, "ConfigMap", "files", "not ours") == message
        await pair.copy(CONFIGMAPS, "other")
        await pair.pod("late", volumes=[volume("files")])
        await told(pair, "Pod", "late", "not ours")
        assert await pair.there.get(CONFIGMAPS, "files", pair.namespace) == foreign
        await pair.there.delete(CONFIGMAPS, "files", pair.namespace)
        await pair.copy(CONFIGMAPS, "files", has(whose="ours"))
        await pair.end("web")
        await pair.end("late")
        await pair.gone(CONFIGMAPS, "files")


async def test_a_foreign_object_survives_its_namesake_and_every_pod(pair: Pair) -> None:
    foreign = await pair.there.create(CONFIGMAPS, {"metadata": {"name": "files"}, "data": {}}, pair.namespace)
    await pair.create(CONFIGMAPS, "files", data={"whose": "ours"})
    async with pair.at_work(FollowController):
        await pair.pod("web", volumes=[volume("files")])
        await told(pair, "Pod", "web", "not ours")
        await pair.here.delete(CONFIGMAPS, "files", pair.namespace)
        await pair.end("web")
        await asyncio.sleep(STILL_SECONDS)
        assert await pair.there.get(CONFIGMAPS, "files", pair.namespace) == foreign


async def test_a_copy_that_admiralty_made_becomes_ours(pair: Pair) -> None:
    original = await pair.create(CONFIGMAPS, "files", data={"a": "2"})
    labels = {names.LABEL_PARENT_UID: original["metadata"]["uid"], names.LABEL_PARENT_CLUSTER_NAME: ""}
    manifest = {"metadata": {"name": "files", "labels": labels}, "data": {"a": "1"}}
    made = await pair.there.create(CONFIGMAPS, manifest, pair.namespace)
    async with pair.at_work(FollowController):
        await pair.pod("web", volumes=[volume("files")])
        copy = await pair.copy(CONFIGMAPS, "files", has(a="2"))
        assert copy["metadata"]["uid"] == made["metadata"]["uid"]
        await pair.end("web")
        await pair.gone(CONFIGMAPS, "files")


async def test_a_token_of_the_sources_service_account_stays_at_home(pair: Pair) -> None:
    metadata = {"annotations": {"kubernetes.io/service-account.name": "default"}}
    await pair.create(SECRETS, "token", type="kubernetes.io/service-account-token", metadata=metadata)
    await pair.create(SECRETS, "plain", data={})
    async with pair.at_work(FollowController) as target:
        pod = await pair.pod("web", imagePullSecrets=[{"name": "token"}, {"name": "plain"}])
        assert pair.deps is not None
        await pair.deps.prerequisites.ensure(pod, target)
        await pair.copy(SECRETS, "plain")
        assert await pair.no_copy(SECRETS, "token")
        assert "create a Secret of that name there" in await told(pair, "Pod", "web", "token of a service account")
        await pair.there.create(SECRETS, {"metadata": {"name": "token"}}, pair.namespace)
        await pair.pod("robot", imagePullSecrets=[{"name": "token"}])
        await asyncio.sleep(STILL_SECONDS)
        events = await pair.here.list(EVENTS, pair.namespace, fields="reason=FollowBlocked,involvedObject.name=robot")
        assert [each for each in events if names.SOURCE_API not in each["message"]] == []


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_a_namespace_that_the_target_does_not_have_is_named(pair: Pair) -> None:
    await pair.create(CONFIGMAPS, "files", data={})
    await pair.there.delete(NAMESPACES, pair.namespace)
    await until(lambda: _has_no_namespace(pair))
    async with pair.at_work(FollowController) as target:
        pod = await pair.pod("web", volumes=[volume("files")])
        assert pair.deps is not None
        await pair.deps.prerequisites.ensure(pod, target)
        assert pair.namespace in await told(pair, "Pod", "web", "not found")
        await pair.there.create(NAMESPACES, {"metadata": {"name": pair.namespace}})
        await pair.copy(CONFIGMAPS, "files")


async def _has_no_namespace(pair: Pair) -> bool:
    return pair.namespace not in [each["metadata"]["name"] for each in await pair.there.list(NAMESPACES)]


async def test_a_copy_that_the_target_refuses_is_told_and_the_others_flow(pair: Pair) -> None:
    await pair.create(CONFIGMAPS, "unwanted", data={"unwanted": ""})
    megabyte = text("x" * (1024 * 1024 - 10))
    await pair.create(SECRETS, "megabyte", data={"a": megabyte})
    head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "unwanted", "namespace": pair.namespace}}
    allowed = "!('unwanted' in object.data)"
    async with (
        refusing(pair.there, CONFIGMAPS, {**head, "data": {"unwanted": ""}}, allowed, "not in this cluster"),
        pair.at_work(FollowController),
    ):
        await pair.pod("web", volumes=[volume("unwanted")], imagePullSecrets=[{"name": "megabyte"}])
        assert "not in this cluster" in await told(pair, "Pod", "web", "unwanted")
        await pair.copy(SECRETS, "megabyte", has(a=megabyte))


async def test_a_target_that_is_away_gets_its_changes_when_it_is_back(pair: Pair) -> None:
    await pair.create(CONFIGMAPS, "files", data={"a": "1"})
    await pair.create(CONFIGMAPS, "gone", data={})
    async with (
        Relay.started(pair.connection) as relay,
        pair.at_work(FollowController, connection=relay.connection) as target,
    ):
        await pair.pod("web", volumes=[volume("files"), volume("gone")])
        await pair.copy(CONFIGMAPS, "files")
        await pair.copy(CONFIGMAPS, "gone")
        relay.cut()
        await until(lambda: not target.ready)
        await pair.here.patch(CONFIGMAPS, "files", {"data": {"a": "2"}}, pair.namespace)
        await pair.here.delete(CONFIGMAPS, "gone", pair.namespace)
        relay.mend()
        await pair.copy(CONFIGMAPS, "files", has(a="2"))
        await pair.gone(CONFIGMAPS, "gone")


async def test_two_targets_of_one_cluster_share_a_copy(pair: Pair) -> None:
    await pair.create(CONFIGMAPS, "files", data={})
    async with pair.at_work(FollowController):
        await pair.connect("us")
        await pair.pod("web-1", volumes=[volume("files")])
        await pair.pod("web-2", target="us", volumes=[volume("files")])
        before = (await pair.copy(CONFIGMAPS, "files"))["metadata"]
        await pair.end("web-1")
        await asyncio.sleep(STILL_SECONDS)
        assert (await pair.copy(CONFIGMAPS, "files"))["metadata"] == before
        await pair.end("web-2")
        await pair.gone(CONFIGMAPS, "files")


async def test_a_target_that_is_this_very_cluster_needs_no_copies(pair: Pair) -> None:
    original = await pair.create(CONFIGMAPS, "files", data={})
    home = load(str(pair.clusters[0].kubeconfig))
    async with pair.at_work(FollowController, connection=home) as target:
        pod = await pair.pod("web", volumes=[volume("files")])
        assert pair.deps is not None
        await pair.deps.prerequisites.ensure(pod, target)
        await pair.end("web")
        await asyncio.sleep(STILL_SECONDS)
        assert await pair.here.get(CONFIGMAPS, "files", pair.namespace) == original
        assert [each for each in await pair.here.list(EVENTS, pair.namespace) if "Follow" in each["reason"]] == []


async def test_many_pods_name_one_config_map_and_one_pod_names_many(pair: Pair) -> None:
    async with pair.at_work(FollowController) as target:
        for number in range(60):
            await pair.create(CONFIGMAPS, f"c-{number}", data={"number": str(number)})
        pod = await pair.pod("web", volumes=[volume(f"c-{number}") for number in range(60)])
        for number in range(20):
            await pair.pod(f"web-{number}", volumes=[volume("c-0")])
        assert pair.deps is not None
        deps = pair.deps
        proxies = deps.proxies.informer
        await until(lambda: proxies.store.get((pair.namespace, "web")))
        await deps.prerequisites.ensure(pod, target)
        copies = await pair.there.list(CONFIGMAPS, pair.namespace, labels=names.LABEL_PARENT_UID)
        assert sorted(each["data"]["number"] for each in copies) == sorted(map(str, range(60)))
