"""Service accounts of a namespace that elects its pods by default, on real API servers."""

import asyncio
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import CONFIGMAPS, EVENTS, NAMESPACES, SERVICE_ACCOUNTS
from agent.dependencies.follow import FollowController, copier
from tests.controllers.dependencies.test_follow import STILL_SECONDS, told, volume
from tests.controllers.dependencies.test_follow_targets import restricted
from tests.controllers.pair import Pair
from tests.controllers.starting import namespace_known

pytestmark = pytest.mark.cluster

FOLLOW = names.SHORT_PREFIX + names.FOLLOW_ACCOUNT
VERBS = ("get", "create", "update", "delete")
NOT_ALLOWED = tuple(("serviceaccounts", verb) for verb in VERBS)


async def electing(pair: Pair, **more: str) -> None:
    """Elect all pods of the namespace, and wait until running controllers have observed that."""
    annotations = {names.SHORT_PREFIX + names.ELECT_BY_DEFAULT: "true", **more}
    await pair.here.patch(NAMESPACES, pair.namespace, {"metadata": {"annotations": annotations}})
    if pair.deps is not None:
        await namespace_known(pair.deps, pair.namespace, annotations)


async def pod(pair: Pair, name: str, **annotations: str) -> dict[str, Any]:
    """Create a pod with a service account and a ConfigMap of the same name."""
    await pair.create(CONFIGMAPS, name, data={})
    await pair.create(SERVICE_ACCOUNTS, name)
    return await pair.pod(name, serviceAccountName=name, volumes=[volume(name)], annotations=annotations)


async def test_what_its_pods_name_follows_and_pod_or_namespace_say_otherwise(pair: Pair) -> None:
    await electing(pair)
    async with pair.at_work(FollowController):
        await pod(pair, "builder")
        await pod(pair, "stays", **{FOLLOW: "false"})
        await pair.copy(SERVICE_ACCOUNTS, "builder")
        await pair.copy(CONFIGMAPS, "stays")
        assert await pair.no_copy(SERVICE_ACCOUNTS, "stays")
        await electing(pair, **{FOLLOW: "false"})
        await pair.gone(SERVICE_ACCOUNTS, "builder")


async def test_an_account_that_the_target_has_made_for_itself_serves_as_well(pair: Pair) -> None:
    await electing(pair)
    await pair.there.create(SERVICE_ACCOUNTS, {"metadata": {"name": "builder"}}, pair.namespace)
    async with pair.at_work(FollowController) as target:
        made = await pod(pair, "builder")
        assert pair.deps is not None
        await pair.deps.prerequisites.ensure(made, target)
        assert not [each for each in await pair.here.list(EVENTS, pair.namespace) if each["reason"] == "FollowBlocked"]
        theirs = await pair.there.get(SERVICE_ACCOUNTS, "builder", pair.namespace)
        assert "labels" not in theirs["metadata"]


async def test_what_served_as_well_and_is_gone_is_made_anew(pair: Pair) -> None:
    await electing(pair)
    await pair.there.create(SERVICE_ACCOUNTS, {"metadata": {"name": "builder"}}, pair.namespace)
    async with pair.at_work(FollowController) as target:
        made = await pod(pair, "builder")
        assert pair.deps is not None
        await pair.deps.prerequisites.ensure(made, target)
        await pair.there.delete(SERVICE_ACCOUNTS, "builder", pair.namespace)
        await pair.copy(SERVICE_ACCOUNTS, "builder", lambda found: "labels" in found["metadata"])


async def test_pods_keep_the_account_they_found_when_their_namespace_ceases_to_elect(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copier, "_LOOK_SECONDS", 0.2)
    await electing(pair)
    async with pair.at_work(FollowController):
        await pod(pair, "builder")
        await pair.copy(SERVICE_ACCOUNTS, "builder")
        await electing(pair, **{names.SHORT_PREFIX + names.ELECT_BY_DEFAULT: "false"})
        await pod(pair, "later")
        await pair.copy(CONFIGMAPS, "later")
        await asyncio.sleep(STILL_SECONDS)
        assert not await pair.no_copy(SERVICE_ACCOUNTS, "builder")
        assert await pair.no_copy(SERVICE_ACCOUNTS, "later")
        await pair.end("builder")
        await pair.gone(SERVICE_ACCOUNTS, "builder")


async def test_where_accounts_are_not_allowed_the_pod_says_so_unless_the_target_has_its_account(pair: Pair) -> None:
    await electing(pair)
    connection = await restricted(pair, *NOT_ALLOWED)
    await pair.there.create(SERVICE_ACCOUNTS, {"metadata": {"name": "there"}}, pair.namespace)
    async with pair.at_work(FollowController, connection=connection) as target:
        assert pair.deps is not None
        await pair.deps.prerequisites.ensure(await pod(pair, "there"), target)
        await pair.deps.prerequisites.ensure(await pod(pair, "lacking"), target)
        message = await told(pair, "Pod", "lacking", "lacking")
        assert "spec.allow of its Source" in message
        events = await pair.here.list(EVENTS, pair.namespace)
        about = {each["involvedObject"]["name"] for each in events if each["reason"] == "FollowBlocked"}
        assert "there" not in about


async def test_where_accounts_may_not_be_looked_at_nothing_is_told_of_what_nobody_asked_for(pair: Pair) -> None:
    await electing(pair)
    connection = await restricted(pair, *NOT_ALLOWED, ("serviceaccounts", "list"), ("serviceaccounts", "watch"))
    async with pair.at_work(FollowController, connection=connection) as target:
        assert pair.deps is not None
        await pair.deps.prerequisites.ensure(await pod(pair, "quiet"), target)
        await pair.deps.prerequisites.ensure(await pod(pair, "loud", **{FOLLOW: "true"}), target)
        await told(pair, "Pod", "loud", "serviceaccounts do not follow")
        events = await pair.here.list(EVENTS, pair.namespace)
        assert {each["involvedObject"]["name"] for each in events if each["reason"] == "FollowBlocked"} == {"loud"}
