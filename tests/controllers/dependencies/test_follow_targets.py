"""Copies in targets that connect, disconnect or refuse them; finalizers of Admiralty's agent."""

import asyncio
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import CONFIGMAPS, NAMESPACES, ROLE_BINDINGS, SECRETS, SERVICE_ACCOUNTS, TARGETS, Kind
from agent.api.roles import EVERYTHING, rules
from agent.dependencies.follow import FollowController, PermittedController, ReleaseController
from agent.dependencies.follow.kinds import copies_in
from agent.kube.config import Connection, parse
from agent.kube.errors import Forbidden
from agent.pods.feedback.controller import Feedback
from agent.targets.target import TargetController
from tests.controllers.dependencies.test_follow import STILL_SECONDS, told, volume
from tests.controllers.pair import Pair
from tests.controllers.starting import running
from tests.controllers.target_links import add, condition, kubeconfig
from tests.e2e.fleet import token_of
from tests.kube.relay import Relay
from tests.waiting import gone, until

pytestmark = pytest.mark.cluster

ROLES = Kind("rbac.authorization.k8s.io", "v1", "roles", "Role")
Raw = dict[str, Any]


async def test_a_target_that_is_removed_keeps_no_copies(pair: Pair) -> None:
    await pair.create(CONFIGMAPS, "files", data={})
    await add(pair.here, pair.namespace, "eu", kubeconfig(pair.clusters[1]))
    async with running(
        pair.clusters[0], TargetController, FollowController, Feedback, follow_linger=600.0, release_after=600.0
    ):
        await condition(pair.here, pair.namespace, "eu", "Ready", "True")
        await pair.pod("web", volumes=[volume("files")])
        await pair.copy(CONFIGMAPS, "files")
        await pair.here.delete(TARGETS, "eu", pair.namespace)
        await gone(lambda: pair.here.get(TARGETS, "eu", pair.namespace))
        assert await pair.no_copy(CONFIGMAPS, "files")


async def test_a_target_that_is_replaced_by_another_cluster_gets_copies_anew(pair: Pair) -> None:
    await pair.create(CONFIGMAPS, "files", data={})
    async with pair.at_work(FollowController) as target:
        assert pair.deps is not None
        pod = await pair.pod("web", volumes=[volume("files")])
        await pair.copy(CONFIGMAPS, "files")
        await pair.deps.targets.disconnect(target.key)
        await pair.there.delete(CONFIGMAPS, "files", pair.namespace)
        again = await pair.connect("eu")
        await pair.deps.prerequisites.ensure(pod, again)
        await pair.copy(CONFIGMAPS, "files")


async def restricted(pair: Pair, *but: tuple[str, str]) -> Connection:
    """Return credentials of a source without some verbs on some resources."""
    granted: list[Raw] = []
    for rule in rules(EVERYTHING):
        (resource,) = rule["resources"]
        granted.append(rule | {"verbs": [verb for verb in rule["verbs"] if (resource, verb) not in but]})
    granted = [rule for rule in granted if rule["verbs"]]
    await pair.there.create(ROLES, {"metadata": {"name": "source"}, "rules": granted}, pair.namespace)
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "source"}
    subjects = [{"kind": "ServiceAccount", "name": "default", "namespace": pair.namespace}]
    manifest = {"metadata": {"name": "source"}, "roleRef": reference, "subjects": subjects}
    await pair.there.create(ROLE_BINDINGS, manifest, pair.namespace)
    token = await token_of(pair.there, "default", pair.namespace)
    return parse(kubeconfig(pair.clusters[1], user={"token": token}).encode(), None)


@pytest.mark.parametrize("verb", ["list", "watch", "create"])
async def test_a_verb_that_is_missing_is_told_and_the_other_kind_follows(pair: Pair, verb: str) -> None:
    await pair.create(CONFIGMAPS, "files", data={})
    await pair.create(SECRETS, "token", data={})
    connection = await restricted(pair, ("secrets", verb))
    async with pair.at_work(FollowController, connection=connection) as target:
        assert pair.deps is not None
        if verb != "create":
            copies = copies_in(target, SECRETS, pair.deps.cluster_uid)
            await until(lambda: isinstance(copies.error, Forbidden), what="what may not be read has been asked for")
        pod = await pair.pod("web", volumes=[volume("files")], imagePullSecrets=[{"name": "token"}])
        await pair.copy(CONFIGMAPS, "files")
        await pair.deps.prerequisites.ensure(pod, target)
        message = await told(pair, "Pod", "web", "secrets")
        assert "target eu" in message
        assert "forbidden" in message
        await pair.there.patch(ROLES, "source", {"rules": rules(EVERYTHING)}, pair.namespace)
        await pair.copy(SECRETS, "token")


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_a_kind_that_may_not_be_listed_is_named_on_the_target_until_it_may(pair: Pair) -> None:
    await restricted(pair, ("secrets", "list"))
    token = await token_of(pair.there, "default", pair.namespace)
    await add(pair.here, pair.namespace, "eu", kubeconfig(pair.clusters[1], user={"token": token}))
    async with running(pair.clusters[0], TargetController, PermittedController):
        told = await condition(pair.here, pair.namespace, "eu", "Following", "False", "Forbidden")
        assert "secrets do not follow" in told["message"]
        assert "configmaps" not in told["message"]
        await pair.there.patch(ROLES, "source", {"rules": rules(EVERYTHING)}, pair.namespace)
        await condition(pair.here, pair.namespace, "eu", "Following", "True")


async def test_a_target_that_gives_no_answer_holds_the_pod_and_not_another_target(pair: Pair) -> None:
    await pair.create(CONFIGMAPS, "files", data={})
    async with Relay.started(pair.connection) as relay, pair.at_work(FollowController, follow_wait=1.0) as target:
        slow = await pair.connect("us", relay.connection)
        relay.freeze(lambda method, path: method == "POST")
        assert pair.deps is not None
        proxies = pair.deps.proxies.informer
        one = await pair.pod("one", target="us", volumes=[volume("files")])
        two = await pair.pod("two", volumes=[volume("files")])
        await until(lambda: proxies.store.get((pair.namespace, "two")))
        await pair.deps.prerequisites.ensure(two, target)
        await pair.copy(CONFIGMAPS, "files")
        await pair.deps.prerequisites.ensure(one, slow)


async def enabled(pair: Pair, **annotations: str) -> None:
    """Let pods of the namespace be elected, and annotate it."""
    metadata = {"labels": {names.LABEL_ENABLED: names.ENABLED_VALUE}, "annotations": annotations}
    await pair.here.patch(NAMESPACES, pair.namespace, {"metadata": metadata})


ACCOUNT = names.SHORT_PREFIX + names.FOLLOW_ACCOUNT


async def test_a_service_account_follows_where_its_namespace_says_so_and_without_its_token(pair: Pair) -> None:
    secrets = [{"name": "token-here"}]
    metadata = {"annotations": {"role": "arn:builder"}}
    fields = {"imagePullSecrets": [{"name": "registry"}], "automountServiceAccountToken": False}
    await pair.create(SERVICE_ACCOUNTS, "builder", secrets=secrets, metadata=metadata, **fields)
    await pair.create(CONFIGMAPS, "files", data={})
    await enabled(pair)
    async with pair.at_work(FollowController):
        await pair.pod("web", serviceAccountName="builder", volumes=[volume("files")])
        await pair.copy(CONFIGMAPS, "files")
        assert await pair.no_copy(SERVICE_ACCOUNTS, "builder")
        await enabled(pair, **{ACCOUNT: "true"})
        copy = await pair.copy(SERVICE_ACCOUNTS, "builder")
        assert "secrets" not in copy
        assert {field: copy[field] for field in fields} == fields
        assert copy["metadata"]["annotations"]["role"] == "arn:builder"
        own = [{"name": "token-there"}]
        await pair.there.patch(SERVICE_ACCOUNTS, "builder", {"secrets": own}, pair.namespace)
        await pair.here.patch(SERVICE_ACCOUNTS, "builder", {"automountServiceAccountToken": True}, pair.namespace)
        copy = await pair.copy(SERVICE_ACCOUNTS, "builder", lambda copy: bool(copy["automountServiceAccountToken"]))
        assert copy["secrets"] == own
        await enabled(pair, **{ACCOUNT: "false"})
        await pair.gone(SERVICE_ACCOUNTS, "builder")


async def test_a_pod_may_ask_for_its_own_service_account_alone(pair: Pair) -> None:
    await pair.create(SERVICE_ACCOUNTS, "one")
    await pair.create(SERVICE_ACCOUNTS, "two")
    await pair.create(CONFIGMAPS, "files", data={})
    async with pair.at_work(FollowController):
        await pair.pod("one", serviceAccountName="one", annotations={ACCOUNT: "true"})
        await pair.pod("two", serviceAccountName="two", volumes=[volume("files")])
        await pair.copy(CONFIGMAPS, "files")
        await pair.copy(SERVICE_ACCOUNTS, "one")
        assert await pair.no_copy(SERVICE_ACCOUNTS, "two")


async def held(pair: Pair, name: str, *finalizers: str) -> Raw:
    """Create an original with finalizers of Admiralty's agent."""
    labels = {names.LABEL_HAS_FINALIZER: "true"}
    return await pair.create(CONFIGMAPS, name, data={}, metadata={"finalizers": [*finalizers], "labels": labels})


@pytest.mark.parametrize("marks", ["labels", "annotations"], ids=["v0.17", "v0.10"])
async def test_finalizers_of_the_agent_before_us_let_go_after_their_copies(pair: Pair, marks: str) -> None:
    own, gone_since = names.finalizer(pair.namespace, "eu"), names.finalizer(pair.namespace, "no-more")
    original = await held(pair, "files", *((own, gone_since) if marks == "labels" else (names.FINALIZER_V010,)))
    parent = {names.LABEL_PARENT_UID: original["metadata"]["uid"]}
    copy = {"metadata": {"name": "files", marks: parent}, "data": {}}
    await pair.there.create(CONFIGMAPS, copy, pair.namespace)
    async with pair.at_work(ReleaseController):
        await asyncio.sleep(STILL_SECONDS)
        assert await pair.here.get(CONFIGMAPS, "files", pair.namespace) == original
        await pair.here.delete(CONFIGMAPS, "files", pair.namespace)
        await gone(lambda: pair.here.get(CONFIGMAPS, "files", pair.namespace))
        assert await pair.no_copy(CONFIGMAPS, "files")


async def test_finalizers_of_others_and_of_targets_that_are_away_stay(pair: Pair) -> None:
    await held(pair, "files", names.finalizer(pair.namespace, "eu"), "example.com/theirs")
    foreign = {"metadata": {"name": "files"}, "data": {}}
    await pair.there.create(CONFIGMAPS, foreign, pair.namespace)
    async with (
        Relay.started(pair.connection) as relay,
        pair.at_work(ReleaseController, connection=relay.connection) as eu,
    ):
        relay.cut()
        await until(lambda: not eu.ready)
        await pair.here.delete(CONFIGMAPS, "files", pair.namespace)
        await asyncio.sleep(STILL_SECONDS)
        found = await pair.here.get(CONFIGMAPS, "files", pair.namespace)
        assert len(found["metadata"]["finalizers"]) == 2
        relay.mend()

        async def only_theirs() -> bool:
            found = await pair.here.get(CONFIGMAPS, "files", pair.namespace)
            return bool(found["metadata"]["finalizers"] == ["example.com/theirs"])

        await until(only_theirs)
        await pair.there.get(CONFIGMAPS, "files", pair.namespace)
        await pair.here.patch(CONFIGMAPS, "files", {"metadata": {"finalizers": None}}, pair.namespace)
