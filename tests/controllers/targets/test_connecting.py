"""Requests that a Target costs API servers, from its connection to its end: no duplicate or needless ones."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from agent.api import names
from agent.api.kinds import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CLUSTER_SUMMARIES,
    INGRESSES,
    LEASES,
    NETWORK_POLICIES,
    NODES,
    ROLE_BINDINGS,
    ROLES,
    SELF_RULES_REVIEWS,
    TARGETS,
)
from agent.api.names.links import OWN_GROUP
from agent.base.metrics import REGISTRY
from agent.clusters.deps import Deps
from agent.clusters.target import PROBE
from agent.controllers import ALWAYS
from agent.kube.config import Connection, parse
from agent.targets.virtual_node import NodeLeaseController
from tests.controllers.pair import Pair
from tests.controllers.starting import running
from tests.controllers.target_links import add, condition, kubeconfig
from tests.e2e.fleet import token_of
from tests.kube.relay import Relay
from tests.waiting import gone

pytestmark = pytest.mark.cluster

QUIET_SECONDS = 2.5
"""Longer than the retry interval for unknown state."""
REFUSED = {kind.plural for kind in (ROLES, ROLE_BINDINGS, NETWORK_POLICIES)}
"""Kinds that a Source may not list by default."""
MOST = 30
"""Upper bound of distinct requests: one per kind and selector that controllers use, and some about the cluster."""
ASKED_BY_TWO = {f"POST {SELF_RULES_REVIEWS.path()}?": 2}
"""Two controllers ask for the rights in the target, each once: for copies, and for endpoints."""


@contextlib.asynccontextmanager
async def source(pair: Pair) -> AsyncIterator[tuple[Connection, str]]:
    """Publish the target's UID, and create a token with all rights except the refused ones."""
    name = pair.namespace
    groups = ["", "apps", "coordination.k8s.io", "discovery.k8s.io", CLUSTER_SUMMARIES.group, OWN_GROUP]
    rules = [
        {"apiGroups": groups, "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [INGRESSES.group], "resources": [INGRESSES.plural], "verbs": ["*"]},
    ]
    subjects = [{"kind": "ServiceAccount", "name": "default", "namespace": name}]
    role = {"apiGroup": CLUSTER_ROLES.group, "kind": "ClusterRole", "name": name}
    head = {"apiVersion": CLUSTER_SUMMARIES.api_version, "kind": CLUSTER_SUMMARIES.name}
    told = {"name": names.SUMMARY_NAME, "annotations": {names.ANNOTATION_CLUSTER_UID: "there"}}
    async with contextlib.AsyncExitStack() as stack:
        for kind, body in (
            (CLUSTER_ROLES, {"metadata": {"name": name}, "rules": rules}),
            (CLUSTER_ROLE_BINDINGS, {"metadata": {"name": name}, "roleRef": role, "subjects": subjects}),
            (CLUSTER_SUMMARIES, {**head, "metadata": told, "capacity": {}, "allocatable": {}}),
        ):
            await pair.there.create(kind, body)
            stack.push_async_callback(pair.there.delete, kind, body["metadata"]["name"])
        token = await token_of(pair.there, "default", name)
        yield parse(kubeconfig(pair.clusters[1], user={"token": token}).encode(), None), token


def asked(relay: Relay) -> Counter[str]:
    """Count requests, without periodic ones and watches; each watch follows a list."""
    found = Counter[str]()
    for (method, path), query in zip(relay.requests, relay.queries, strict=True):
        given = {part.partition("=")[0] for part in query.split("&")}
        if "watch" not in given and given != set(PROBE) and not path.endswith(f"/{LEASES.plural}"):
            found[f"{method} {path}?{query}"] += 1
    return found


async def settled(relay: Relay) -> Counter[str]:
    """Return the counted requests once there are no further ones."""
    before = asked(relay)
    for _ in range(4):
        await asyncio.sleep(QUIET_SECONDS)
        if (now := asked(relay)) == before:
            return now
        before = now
    raise AssertionError(f"it is asked again and again: {before}")


def leases(deps: Deps) -> NodeLeaseController:
    return NodeLeaseController(deps.local, deps.clock, deps.settings)


def in_vain() -> float:
    """Count local requests for missing leases, and deletions of nodes that no longer exist."""
    total = 0.0
    for method, resource in (("GET", LEASES.plural), ("DELETE", NODES.plural)):
        labels = {"cluster": "local", "method": method, "resource": resource, "outcome": "404"}
        total += REGISTRY.get_sample_value("flotilla_api_requests_total", labels) or 0.0
    return total


async def test_a_target_comes_and_goes_without_a_question_that_is_asked_twice_or_in_vain(pair: Pair) -> None:
    node, before = names.virtual_node(pair.namespace, "eu"), in_vain()
    async with (
        source(pair) as (connection, token),
        Relay.started(connection) as relay,
        running(pair.clusters[0], *ALWAYS, leases),
    ):
        config = kubeconfig(pair.clusters[1], server=relay.connection.server, user={"token": token})
        await add(pair.here, pair.namespace, "eu", config)
        await condition(pair.here, pair.namespace, "eu", "Reachable", "True")
        found = await settled(relay)
        await pair.here.get(LEASES, node, names.NODE_LEASE_NAMESPACE)
        await pair.here.delete(TARGETS, "eu", pair.namespace)
        await gone(lambda: pair.here.get(NODES, node))
        # A second deletion would follow within moments.
        await asyncio.sleep(0.5)
        assert in_vain() == before
    await pair.here.delete(CLUSTER_SUMMARIES, names.SUMMARY_NAME)
    assert {question: count for question, count in found.items() if count > 1} == ASKED_BY_TWO
    assert {question.partition("?")[0].rpartition("/")[2] for question in found} >= REFUSED, "they are asked for once"
    assert len(found) <= MOST, sorted(found)
