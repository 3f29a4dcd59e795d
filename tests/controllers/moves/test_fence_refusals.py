"""Fences between real clusters whose API servers are slow, or refuse the writes of one pod."""

import copy
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import CHAPERONS, LEASES, PODS
from agent.api.names import fencing
from agent.base.clock import SystemClock, micro_stamp
from agent.clusters.deps import Deps
from agent.kube.config import load
from tests.controllers.moves.test_fence import THERE, at_work, is_kept, pod
from tests.controllers.pair import Pair
from tests.controllers.starting import running
from tests.controllers.target_links import kubeconfig
from tests.kube.relay import Relay
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

Raw = dict[str, Any]

TERM = 4
PODS_OF_ONE_LEASE = 40
LATENCY_SECONDS = 0.2
ONE_BY_ONE_SECONDS = PODS_OF_ONE_LEASE * 2 * LATENCY_SECONDS
"""Duration of the stop if the agent patched and deleted one delegate after the other."""


def refused(what: str) -> Raw:
    """Return the response of an API server whose admission policy refuses a request."""
    return {"kind": "Status", "code": 422, "reason": "Invalid", "message": f"a policy refuses {what}"}


async def fenced(pair: Pair, count: int, term: int) -> list[str]:
    """Create chaperons and the Lease that fences them in the target. Return the names of the chaperons."""
    lease = f"{fencing.LEASE_PREFIX}by-hand"
    metadata = {"name": lease, "labels": {fencing.LABEL_FENCE: "S"}}
    now = micro_stamp(SystemClock().now())
    spec = {"holderIdentity": "S", "leaseDurationSeconds": term, "renewTime": now}
    manifest = {"apiVersion": LEASES.api_version, "kind": LEASES.name, "metadata": metadata, "spec": spec}
    await pair.there.create(LEASES, manifest, pair.namespace)
    made = [f"db-{number}" for number in range(count)]
    for name in made:
        labels, annotations = {names.LABEL_PARENT_UID: "P"}, {fencing.ANNOTATION_LEASE: lease}
        chaperon = {
            "apiVersion": CHAPERONS.api_version,
            "kind": CHAPERONS.name,
            "metadata": {"name": name, "labels": labels, "annotations": annotations},
            "spec": {"containers": [{"name": "main", "image": "busybox"}], "terminationGracePeriodSeconds": 30},
        }
        await pair.there.create(CHAPERONS, chaperon, pair.namespace)
    return made


@asynccontextmanager
async def agent_behind_relay(pair: Pair, tmp_path: Path) -> AsyncIterator[tuple[Deps, Relay]]:
    """Run the target's agent with a relay between it and its own API server."""
    there = pair.clusters[1]
    async with Relay.started(load(str(there.kubeconfig))) as relay:
        relayed = copy.copy(there)
        relayed.kubeconfig = tmp_path / "relayed"
        relayed.kubeconfig.write_text(kubeconfig(there, server=relay.connection.server))
        async with running(relayed, *THERE) as deps:
            yield deps, relay


async def running_delegates(pair: Pair) -> set[str]:
    """Return the names of the delegates that are not being deleted."""
    found = await pair.there.list(PODS, pair.namespace, labels=names.LABEL_PARENT_UID)
    return {each["metadata"]["name"] for each in found if "deletionTimestamp" not in each["metadata"]}


async def test_slow_and_refused_writes_delay_the_stop_of_no_delegate(pair: Pair, tmp_path: Path) -> None:
    """The target refuses every patch of one pod's chaperon, and each request takes 200 ms."""
    async with agent_behind_relay(pair, tmp_path) as (_, relay):
        # Creation may take longer than the term.
        made = set(await fenced(pair, PODS_OF_ONE_LEASE, 600))

        async def refuse(method: str, path: str) -> Raw | None:
            return refused("db-0") if method == "PATCH" and path.endswith("/podchaperons/db-0") else None

        relay.answer = refuse
        await until(lambda: _is(running_delegates(pair), made), what="all delegates exist")
        renewed = {"spec": {"leaseDurationSeconds": TERM, "renewTime": micro_stamp(SystemClock().now())}}
        await pair.there.patch(LEASES, f"{fencing.LEASE_PREFIX}by-hand", renewed, pair.namespace)
        relay.delay(LATENCY_SECONDS)
        await until(
            lambda: _is(running_delegates(pair), set()),
            TERM + ONE_BY_ONE_SECONDS * 0.75,
            what="all delegates are stopped",
        )


async def _is(found: Any, wanted: set[str]) -> bool:
    return bool(await found == wanted)


async def test_a_refused_write_of_one_pod_stops_neither_renewals_nor_the_fences_of_others(pair: Pair) -> None:
    async with at_work(pair) as (target, relay):

        async def refuse(method: str, path: str) -> Raw | None:
            return refused("db-0") if method == "PATCH" and "/podchaperons/db-0-" in path else None

        relay.answer = refuse
        await pod(pair, target, "db-0")
        await pod(pair, target, "db-1")
        await until(lambda: is_kept(pair, "db-1"))
        tried = [path for method, path in relay.requests if method == "PATCH" and "/podchaperons/db-0-" in path]
        assert tried

        def renewals() -> int:
            return Counter(method for method, path in relay.requests if "/leases/" in path)["PUT"]

        before = renewals()
        await until(lambda: renewals() >= before + 6, TERM * 2, what="the Lease is renewed in time")


async def test_a_machine_that_slept_through_the_term_stops_its_delegates_when_it_wakes(
    pair: Pair, tmp_path: Path
) -> None:
    """Timers of the event loop do not advance while a machine sleeps."""
    async with agent_behind_relay(pair, tmp_path) as (deps, _):
        made = set(await fenced(pair, 1, 600))
        await until(lambda: _is(running_delegates(pair), made), what="the delegate exists")
        seen = deps.fences.seen
        awake = seen.clock
        seen.clock = lambda: awake() + 700
        await until(lambda: _is(running_delegates(pair), set()), 15, what="the delegate is stopped")
