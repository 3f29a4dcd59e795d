"""A source writes heartbeats under a key of its account: no other source can forge them, or retain its orphans."""

import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from agent.api import admission, names
from agent.api.conditions import find_condition
from agent.api.heartbeat_policies import LONGEST, OWN_AT_MOST, SHARED_AT_MOST, SIGNS
from agent.api.kinds import (
    CHAPERONS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    LEASES,
    NAMESPACES,
    SELF_SUBJECT_REVIEWS,
    SERVICE_ACCOUNTS,
    TARGETS,
)
from agent.kube.client import Client
from agent.kube.config import parse
from agent.kube.errors import Forbidden
from agent.kube.session import Session
from agent.model import heartbeats
from agent.model.heartbeats import Account, Sign
from agent.pods.feedback.controller import Feedback
from agent.pods.orphans import OrphansController
from agent.targets.heartbeats import HeartbeatController
from agent.targets.target import TargetController
from tests.controllers.leading import leading
from tests.controllers.pair import Pair
from tests.controllers.pods.test_orphans import chaperon
from tests.controllers.starting import running
from tests.controllers.target_links import add, condition, kubeconfig, rewrite
from tests.controllers.targets.test_signs import OFTEN, an_agent
from tests.e2e.fleet import token_of
from tests.waiting import allowed, gone, until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]
# All rights of a source, and more; but like a source it cannot delete Leases.
RIGHTS = [
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch", "create", "update", "patch"]},
    {"apiGroups": [CHAPERONS.group], "resources": ["*"], "verbs": ["delete"]},
]
ESCAPED = r',"\u0061ccount":"%s"}'


@contextlib.asynccontextmanager
async def accounts(pair: Pair, *keys: tuple[str, str]) -> AsyncIterator[list[str]]:
    """Create ServiceAccounts in the target with the rights of sources; yield their kubeconfigs."""
    role, there = pair.namespace, pair.there
    subjects = [{"kind": "ServiceAccount", "namespace": namespace, "name": name} for namespace, name in keys]
    for namespace, name in keys:
        if namespace != pair.namespace:
            await there.create(NAMESPACES, {"metadata": {"name": namespace}})
        await there.create(SERVICE_ACCOUNTS, {"metadata": {"name": name}}, namespace)
    await there.create(CLUSTER_ROLES, {"metadata": {"name": role}, "rules": RIGHTS})
    reference = {"apiGroup": CLUSTER_ROLES.group, "kind": "ClusterRole", "name": role}
    await there.create(CLUSTER_ROLE_BINDINGS, {"metadata": {"name": role}, "roleRef": reference, "subjects": subjects})
    try:
        found = []
        for namespace, name in keys:
            await allowed(there, namespace, name, group=LEASES.group, resource=LEASES.plural, verb="patch")
            found.append(kubeconfig(pair.clusters[1], user={"token": await token_of(there, name, namespace)}))
        yield found
    finally:
        await there.delete(CLUSTER_ROLE_BINDINGS, role)
        await there.delete(CLUSTER_ROLES, role)
        for namespace in {namespace for namespace, _ in keys} - {pair.namespace}:
            await there.delete(NAMESPACES, namespace)


async def account_of(client: Client) -> Account:
    return heartbeats.account_of(await client.create(SELF_SUBJECT_REVIEWS, {"metadata": {}}))


@contextlib.asynccontextmanager
async def guarded(pair: Pair) -> AsyncIterator[None]:
    """Install the policy for the namespace of the test."""
    every = admission.policies("nobody", pair.namespace, "nobody")
    made = [each for each in every if each["metadata"]["name"] == SIGNS]
    name = f"{SIGNS}-{pair.namespace}"
    paths = []
    for each in made:
        each["metadata"]["name"] = name
        if "policyName" in each["spec"]:
            each["spec"]["policyName"] = name
        group, _, version = each["apiVersion"].partition("/")
        plural = (
            "validatingadmissionpolicies" if "policyName" not in each["spec"] else "validatingadmissionpolicybindings"
        )
        path = f"/apis/{group}/{version}/{plural}"
        await pair.there.session.request("POST", path, body=_json(each))
        paths.append(f"{path}/{name}")
    try:
        yield
    finally:
        for path in paths:
            await pair.there.session.request("DELETE", path)


def _json(obj: Raw) -> bytes:
    return msgspec.json.encode(obj)


async def annotate(client: Client, namespace: str, **annotations: str | None) -> None:
    await client.patch(LEASES, names.LEASE_SOURCES, {"metadata": {"annotations": annotations}}, namespace)


def text_of(sign: Sign, account: Account) -> str:
    found: Any = heartbeats.patch("x", sign, "", account)
    return str(found["metadata"]["annotations"][names.sign("x", account.uid)])


async def test_the_policy_lets_each_account_give_its_own_signs_and_few_of_them(pair: Pair) -> None:
    await an_agent(pair)
    home, evil_home = pair.namespace, f"{pair.namespace}-evil"
    async with contextlib.AsyncExitStack() as stack:
        good, evil = await stack.enter_async_context(accounts(pair, (home, "cd"), (evil_home, "cd")))
        victim = Client(await stack.enter_async_context(Session(parse(good))))
        thief = Client(await stack.enter_async_context(Session(parse(evil))))
        await stack.enter_async_context(guarded(pair))
        mine, theirs = await account_of(victim), await account_of(thief)
        assert mine.namespace == home
        assert mine.uid != theirs.uid
        sign = Sign(datetime.now(UTC), "h", "cd")
        key = names.sign("victim", mine.uid)

        async def is_guarded() -> bool:
            try:
                await annotate(thief, home, unknown=str(datetime.now(UTC)))
            except Forbidden:
                return True
            return False

        await until(is_guarded)
        await annotate(pair.there, home, unknown=None)

        async def version() -> str:
            lease = await pair.there.get(LEASES, names.LEASE_SOURCES, home)
            return str(lease["metadata"]["resourceVersion"])

        async def give(client: Client, account: Account) -> None:
            lease = await pair.there.get(LEASES, names.LEASE_SOURCES, home)
            body = heartbeats.patch("victim", sign, await version(), account, lease["metadata"].get("annotations"))
            await client.patch(LEASES, names.LEASE_SOURCES, body, home)

        await give(victim, mine)
        own, shared = text_of(sign, theirs), text_of(sign, Account())
        for refused, why in (
            ({key: text_of(Sign(sign.seen, "evil"), mine)}, "under keys of its own account"),
            ({key: None}, "under keys of its own account"),
            ({"note": "1"}, "under keys of its own account"),
            ({names.sign("victim", theirs.uid): text_of(sign, mine)}, "names that account"),
            ({names.sign("victim", theirs.uid): own[:-1] + text_of(sign, mine)[1:]}, "names that account"),
            ({names.sign("victim", theirs.uid): own[:-1] + ESCAPED % mine.name}, "names that account"),
            ({names.sign("victim", theirs.uid): own + " " * LONGEST}, "characters at most"),
            ({names.sign("victim"): "x" * (LONGEST + 1)}, "characters at most"),
            ({names.sign(f"u{i}", theirs.uid): own for i in range(OWN_AT_MOST + 1)}, "signs of 8 sources at most"),
            ({names.sign(f"u{i}"): shared for i in range(SHARED_AT_MOST)}, "already"),
        ):
            with pytest.raises(Forbidden, match=why):
                await annotate(thief, home, **refused)
        for body in ({"labels": {"a": "b"}}, {"finalizers": ["example.org/stay"]}):
            with pytest.raises(Forbidden, match="its signs of life only"):
                await thief.patch(LEASES, names.LEASE_SOURCES, {"metadata": body}, home)
        with pytest.raises(Forbidden, match="its signs of life only"):
            await thief.patch(LEASES, names.LEASE_SOURCES, {"spec": {"holderIdentity": "evil"}}, home)
        # As many keys as allowed: the victim continues, whether or not a key is left.
        await annotate(thief, home, **{names.sign(f"u{i}", theirs.uid): own for i in range(OWN_AT_MOST)})
        await annotate(thief, home, **{names.sign("victim"): None})
        await annotate(thief, home, **{names.sign(f"u{i}"): shared for i in range(SHARED_AT_MOST)})
        sign = Sign(sign.seen + timedelta(seconds=60), "h", "cd")
        await give(victim, mine)
        lease = await pair.there.get(LEASES, names.LEASE_SOURCES, home)
        assert heartbeats.read(lease["metadata"]["annotations"])["victim"].seen == sign.seen
        # An administrator has all rights.
        await annotate(pair.there, home, **dict.fromkeys(lease["metadata"]["annotations"]))


async def forge(pair: Pair, key: str, account: Account, holder: str) -> None:
    """Write another heartbeat with this cluster's UID, as any account with access to the Lease can."""
    text = text_of(Sign(datetime.now(UTC), holder, "evil"), account)
    await annotate(pair.there, pair.namespace, **{key: text})


async def test_a_forged_sign_holds_no_orphans_and_one_of_the_same_namespace_does(pair: Pair) -> None:
    await an_agent(pair)
    async with contextlib.AsyncExitStack() as stack:
        (config,) = await stack.enter_async_context(accounts(pair, (pair.namespace, "cd")))
        await add(pair.here, pair.namespace, "eu", config)
        lease = await stack.enter_async_context(leading(pair, "one"))
        controllers = (TargetController, HeartbeatController, Feedback, OrphansController)
        deps = await stack.enter_async_context(running(pair.clusters[0], *controllers, lease=lease, **OFTEN))
        uid = deps.cluster_uid

        async def given() -> bool:
            found = await pair.there.get(LEASES, names.LEASE_SOURCES, pair.namespace)
            signed = heartbeats.of_source(found["metadata"].get("annotations"), uid)
            return sorted(each.account for each in signed.values()) == [
                "",
                f"system:serviceaccount:{pair.namespace}:cd",
            ]

        await until(given)
        evil = Account("system:serviceaccount:evil:cd", "e0e0")
        for each in ("1", "2", "3"):
            await forge(pair, names.sign(uid), Account(), each)
            await forge(pair, names.sign(uid, evil.uid), evil, each)
            if each == "3":
                told = await condition(pair.here, pair.namespace, "eu", "SourceUnique", "False", "ForeignSign")
                assert "so says system:serviceaccount:evil:cd in this target" in told["message"]
            else:
                await until(lambda: _seen_again(pair, uid))
        await chaperon(pair, uid, {"metadata": {"name": "left", "uid": "uid-left"}})
        name = names.chaperon("left", "uid-left")
        await gone(lambda: pair.there.get(CHAPERONS, name, pair.namespace))

        copy = Account(f"system:serviceaccount:{pair.namespace}:copy", "c0c0")
        for each in ("1", "2"):
            await forge(pair, names.sign(uid, copy.uid), copy, each)
            await until(lambda: _seen_again(pair, uid))
        await condition(pair.here, pair.namespace, "eu", "SourceUnique", "False", "TwinSource")
        await chaperon(pair, uid, {"metadata": {"name": "theirs", "uid": "uid-theirs"}})
        held = await condition(pair.here, pair.namespace, "eu", "OrphansDeleted", "False", "TwinSource")
        assert "1 of 1 pod chaperons" in held["message"]
        target = await pair.here.get(TARGETS, "eu", pair.namespace)
        assert find_condition(target["status"]["conditions"], "Ready") is not None


async def _seen_again(pair: Pair, uid: str) -> bool:
    """Wait for a source's heartbeat later than this call: by then it has read the Lease."""
    now = datetime.now(UTC)

    async def newer() -> bool:
        lease = await pair.there.get(LEASES, names.LEASE_SOURCES, pair.namespace)
        return heartbeats.read(lease["metadata"]["annotations"])[uid].seen > now

    return bool(await until(newer))


async def test_an_account_that_was_created_again_gives_signs_under_its_new_uid(pair: Pair) -> None:
    await an_agent(pair)
    home = pair.namespace
    async with contextlib.AsyncExitStack() as stack:
        (config,) = await stack.enter_async_context(accounts(pair, (home, "cd")))
        await stack.enter_async_context(guarded(pair))
        await add(pair.here, home, "eu", config)
        deps = await stack.enter_async_context(
            running(pair.clusters[0], TargetController, HeartbeatController, **OFTEN)
        )

        async def key() -> str:
            made = await pair.there.get(SERVICE_ACCOUNTS, "cd", home)
            return names.sign(deps.cluster_uid, made["metadata"]["uid"])

        async def signed(key: str) -> bool:
            lease = await pair.there.get(LEASES, names.LEASE_SOURCES, home)
            return key in (lease["metadata"].get("annotations") or {})

        before = await key()
        await until(lambda: signed(before))
        await pair.there.delete(SERVICE_ACCOUNTS, "cd", home)
        await pair.there.create(SERVICE_ACCOUNTS, {"metadata": {"name": "cd"}}, home)
        token = await token_of(pair.there, "cd", home)
        await rewrite(pair.here, home, "eu", kubeconfig(pair.clusters[1], user={"token": token}))
        after = await key()
        await until(lambda: signed(after))
