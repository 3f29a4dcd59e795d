"""Tokens with which delegates access the API of their source, on two real API servers; one accepts tokens."""

import base64
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import EVENTS, NAMESPACES, PODS, SECRETS, SERVICE_ACCOUNTS, SOURCES, Kind
from agent.clusters.stores import source_accounts
from agent.dependencies.follow import FollowController
from agent.dependencies.source_api import NoSourceApi, SourceApiController
from agent.kube.client import Client
from agent.kube.config import parse
from agent.kube.session import Session
from agent.model.sourceapi import secret_name
from tests.controllers.pair import Pair
from tests.controllers.target_links import kubeconfig
from tests.kube.relay import Relay
from tests.waiting import until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]
ASKS = {names.SHORT_PREFIX + names.SOURCE_API: "true"}
REVIEWS = Kind("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)


def content(secret: Raw, name: str) -> str:
    return base64.b64decode(secret["data"][name]).decode()


async def user(pair: Pair, token: str) -> str:
    """Return the user name that the source authenticates a token as."""
    connection = parse(kubeconfig(pair.clusters[0], user={"token": token}).encode(), None)
    async with Session(connection) as session:
        review = await Client(session).create(REVIEWS, {"apiVersion": REVIEWS.api_version, "kind": REVIEWS.name})
        return str(review["status"]["userInfo"]["username"])


async def test_a_pod_that_asks_has_a_token_of_its_account_there_before_its_delegate(pair: Pair) -> None:
    async with pair.at_work(SourceApiController, FollowController) as target:
        assert pair.deps is not None
        plain = await pair.pod("plain")
        asks = await pair.pod("web", annotations=ASKS)
        for pod in (plain, asks):
            await pair.deps.prerequisites.ensure(pod, target)
        name = secret_name(asks["metadata"])
        secret = await pair.there.get(SECRETS, name, pair.namespace)
        assert await user(pair, content(secret, "token")) == f"system:serviceaccount:{pair.namespace}:default"
        assert content(secret, "namespace") == pair.namespace
        authority = await pair.here.get(Kind("", "v1", "configmaps", "ConfigMap"), "kube-root-ca.crt", pair.namespace)
        assert content(secret, "ca.crt") == authority["data"]["ca.crt"]
        assert await pair.no_copy(SECRETS, secret_name(plain["metadata"]))

        soon = {"metadata": {"annotations": {names.ANNOTATION_TOKEN_EXPIRES: "2020-01-01T00:00:00Z"}}}
        await pair.there.patch(SECRETS, name, soon, pair.namespace)
        await pair.copy(SECRETS, name, lambda found: found["data"]["token"] != secret["data"]["token"])
        await pair.end("web")
        await pair.gone(SECRETS, name)


async def test_a_target_that_does_not_answer_holds_up_no_other(pair: Pair) -> None:
    def is_post(method: str, path: str) -> bool:
        return method == "POST" and path.endswith("/secrets")

    async with Relay.started(pair.connection) as relay, pair.at_work(SourceApiController):
        assert pair.deps is not None
        # Requests without a response outlast this test.
        pair.deps.local.client.session.timeout = 600.0
        await pair.connect("dark", relay.connection)
        relay.freeze(is_post)
        for number in range(2 * SourceApiController.lane_width):
            await pair.pod(f"dark-{number}", target="dark", annotations=ASKS)
        await until(lambda: sum(is_post(*each) for each in relay.requests) == SourceApiController.lane_width)
        await pair.copy(SECRETS, secret_name((await pair.pod("web", annotations=ASKS))["metadata"]))


async def test_a_secret_in_the_way_is_left_alone_and_named_on_the_pod(pair: Pair) -> None:
    async with pair.at_work(SourceApiController) as target:
        assert pair.deps is not None
        pod = await pair.here.get(PODS, (await pair.pod("later"))["metadata"]["name"], pair.namespace)
        name = secret_name(pod["metadata"])
        await pair.there.create(SECRETS, {"metadata": {"name": name}, "stringData": {"a": "b"}}, pair.namespace)
        await pair.here.patch(PODS, "later", {"metadata": {"annotations": ASKS}}, pair.namespace)

        async def told() -> bool:
            events = await pair.here.list(EVENTS, pair.namespace, fields="reason=SourceApiBlocked")
            return any("not ours" in each["message"] and name in each["message"] for each in events)

        await until(told)
        await pair.deps.prerequisites.ensure(await pair.here.get(PODS, "later", pair.namespace), target)
        assert content(await pair.there.get(SECRETS, name, pair.namespace), "a") == "b"


async def test_only_accounts_that_the_namespace_names_have_tokens_in_targets_where_the_setting_says_so(
    pair: Pair,
) -> None:
    async with pair.at_work(SourceApiController, source_api_any_account=False) as target:
        assert pair.deps is not None
        pod = await pair.pod("web", annotations=ASKS)
        await pair.deps.prerequisites.ensure(pod, target)
        name = secret_name(pod["metadata"])
        assert await pair.no_copy(SECRETS, name)

        async def told() -> list[Raw]:
            return await pair.here.list(EVENTS, pair.namespace, fields="reason=SourceApiBlocked")

        (event,) = await until(told)
        assert f"ServiceAccount {pair.namespace}/default" in event["message"]
        assert f"annotation multicluster/source-api-accounts of namespace {pair.namespace}" in event["message"]
        await permit(pair, "builder, default")
        await pair.copy(SECRETS, name)
        await permit(pair, "builder")
        await pair.gone(SECRETS, name)
    async with pair.at_work(SourceApiController):
        await permit(pair, None)
        await pair.copy(SECRETS, name)


async def permit(pair: Pair, accounts: str | None) -> None:
    """Allow service accounts of a namespace, as an administrator of the source does."""
    annotations = {names.SHORT_PREFIX + names.SOURCE_API_ACCOUNTS: accounts}
    await pair.here.patch(NAMESPACES, pair.namespace, {"metadata": {"annotations": annotations}})


async def test_the_account_of_a_source_has_no_tokens_in_targets(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_accounts, "LINGER_SECONDS", 2.0)
    await pair.create(SERVICE_ACCOUNTS, "cd")
    async with pair.at_work(SourceApiController, FollowController) as target:
        assert pair.deps is not None
        asks = await pair.pod("web", annotations=ASKS, serviceAccountName="cd")
        await pair.deps.prerequisites.ensure(asks, target)
        name = secret_name(asks["metadata"])
        await pair.copy(SECRETS, name)
        await pair.create(SOURCES, "other", spec={"serviceAccountName": "cd"})
        await pair.gone(SECRETS, name)
        events = await until(lambda: pair.here.list(EVENTS, pair.namespace, fields="involvedObject.name=web"))
        assert "the source of Source" in events[0]["message"]
        assert "have the pod name another service account" in events[0]["message"]
        await pair.deps.prerequisites.ensure(asks, target)
        assert await pair.no_copy(SECRETS, name)
        # The account counts for a while after its Source was deleted.
        await pair.here.delete(SOURCES, "other", pair.namespace)
        await pair.copy(SECRETS, name)
        await pair.end("web")


async def test_without_an_address_a_pod_that_asks_is_told_what_is_missing(pair: Pair) -> None:
    async with pair.at_work() as target:
        assert pair.deps is not None
        NoSourceApi(pair.deps)
        for name, annotations in (("plain", {}), ("asks", ASKS)):
            await pair.deps.prerequisites.ensure(await pair.pod(name, annotations=annotations), target)

        async def told() -> list[Raw]:
            return await pair.here.list(EVENTS, pair.namespace, fields="reason=SourceApiBlocked")

        (event,) = await until(told)
        assert event["involvedObject"]["name"] == "asks"
        assert "start it with --source-api HOST:PORT" in event["message"]
