"""Withdrawn fences whose mark in the target cannot be removed yet: the leader ends, or the target refuses the
write."""

from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import CHAPERONS, LEASES, PODS
from agent.api.names import fencing
from agent.kube.errors import NotFound
from tests.controllers.moves.test_fence import (
    FENCE,
    FENCES,
    TERM,
    annotation,
    at_work,
    chaperon_of,
    is_kept,
    lease_name,
    pod,
)
from tests.controllers.pair import Pair
from tests.controllers.proxies import connected, create, elected
from tests.controllers.starting import running
from tests.kube.relay import Relay
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]


def is_mark(method: str, path: str) -> bool:
    """Return whether a request patches a chaperon."""
    return method == "PATCH" and "/podchaperons/" in path


async def withdraw(pair: Pair, relay: Relay) -> None:
    """Remove the pod's fence annotation. Return once its note is removed and the removal of the mark was
    requested."""
    await pair.here.patch(PODS, "db", {"metadata": {"annotations": {FENCE: None}}}, pair.namespace)

    async def is_between() -> bool:
        noted = await annotation(pair.here, PODS, pair.namespace, "db", fencing.ANNOTATION_KEPT)
        return not noted and any(is_mark(*request) for request in relay.requests)

    await until(is_between)


async def test_the_next_leader_takes_off_the_mark_that_the_one_before_has_left(pair: Pair) -> None:
    async with at_work(pair) as (target, relay):
        made = await pod(pair, target, "db")
        delegate = names.chaperon("db", made["metadata"]["uid"])
        await until(lambda: is_kept(pair, "db"))
        relay.requests.clear()
        # The last write of this leader never arrives.
        relay.freeze(is_mark)
        await withdraw(pair, relay)
        assert await annotation(pair.there, CHAPERONS, pair.namespace, delegate, fencing.ANNOTATION_LEASE)
        async with running(pair.clusters[0], *FENCES, fence_after=float(TERM), fence_margin=2.0) as deps:
            await deps.targets.connect(target.key, pair.connection, "first")

            async def is_free() -> bool:
                return not await annotation(pair.there, CHAPERONS, pair.namespace, delegate, fencing.ANNOTATION_LEASE)

            await until(is_free)
        found = await pair.there.get(PODS, delegate, pair.namespace)
        assert "deletionTimestamp" not in found["metadata"]


@pytest.mark.full("Waits for longer than the term of a fence; a faster test has the next leader take off the mark.")
async def test_a_lease_is_renewed_for_as_long_as_a_mark_cannot_be_taken_off(pair: Pair) -> None:
    async with at_work(pair) as (target, relay):
        made = await pod(pair, target, "db")
        delegate = names.chaperon("db", made["metadata"]["uid"])
        await until(lambda: is_kept(pair, "db"))
        relay.requests.clear()

        async def refuse(method: str, path: str) -> dict[str, Any] | None:
            refused = {"kind": "Status", "code": 422, "reason": "Invalid", "message": "a policy refuses it"}
            return refused if is_mark(method, path) else None

        relay.answer = refuse
        await withdraw(pair, relay)

        def renewals() -> int:
            return sum(method == "PUT" and "/leases/" in path for method, path in relay.requests)

        before = renewals()
        await until(lambda: renewals() >= before + 6, TERM * 2, what="the Lease is renewed in time")
        found = await pair.there.get(PODS, delegate, pair.namespace)
        assert "deletionTimestamp" not in found["metadata"]
        name = lease_name(pair, target)
        deleted = await pair.there.get(LEASES, name, pair.namespace)
        await pair.there.delete(LEASES, name, pair.namespace)

        async def owners() -> list[str]:
            try:
                lease = await pair.there.get(LEASES, name, pair.namespace)
            except NotFound:
                return []
            is_new = lease["metadata"]["uid"] != deleted["metadata"]["uid"]
            return [owner["name"] for owner in lease["metadata"].get("ownerReferences", ())] if is_new else []

        await until(owners, what="the Lease is created again, and owned by the chaperon that has the mark")
        assert await owners() == [delegate]


async def test_no_lease_exists_before_a_chaperon_can_own_it(pair: Pair) -> None:
    """A pod that is bound by hand may be deleted before it has a chaperon: nothing would delete its Lease."""
    terms = {"fence_after": float(TERM), "fence_margin": 2.0}
    async with (
        running(pair.clusters[0], *FENCES, **terms) as pair.deps,
        connected(pair.deps, pair.here, pair.namespace, eu=pair.connection) as targets,
    ):
        target = targets["eu"]
        manifest = elected("db", pair.namespace, terminationGracePeriodSeconds=1)
        manifest["metadata"]["annotations"][FENCE] = "lease"
        made = await create(pair.here, manifest, [target])
        binding = {"metadata": {"name": "db"}, "target": {"kind": "Node", "name": target.node_name}}
        await pair.here.create(PODS, binding, pair.namespace, sub="binding")
        key, sent = (target.node_name, pair.namespace), pair.deps.fences.sent
        await until(lambda: sent.ago(key) < TERM, what="a renewal was due")
        assert await pair.there.list(LEASES, pair.namespace, labels=fencing.LABEL_FENCE) == []
        delegate = await chaperon_of(pair, made)

        async def owner() -> bool:
            lease = await pair.there.get(LEASES, lease_name(pair, target), pair.namespace)
            return bool(lease["metadata"]["ownerReferences"][0]["name"] == delegate)

        await until(owner, what="the Lease belongs to the chaperon")
