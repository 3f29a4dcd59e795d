"""Promise 25: every key of the wire contract (section 2.1) appears on the right objects, checked on one fleet."""

from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

import msgspec
import pytest
import pytest_asyncio

from agent.api.kinds import CLUSTER_SOURCES, CLUSTER_TARGETS
from agent.api.names import finalizer
from tests.e2e.fleet import Fleet, Raw
from tests.e2e.keys import OLD_FINALIZER, PROVIDER, REGION, P, Seen, annotations, create_all, labels, look


class Row(NamedTuple):
    """A key, and a check that the contract holds for it."""

    key: str
    holds: Callable[[Seen], bool]


def manifest(seen: Seen) -> Raw:
    """Return the source pod in the proxy pod's manifest annotation."""
    found: Raw = msgspec.json.decode(annotations(seen.proxy)[P + "sourcepod-manifest"])
    return found


def children(seen: Seen) -> list[Raw]:
    return [seen.chaperon, seen.config_copy, seen.service_copy, seen.ingress_copy]


def parents(seen: Seen) -> list[Raw]:
    return [seen.proxy, seen.config, seen.service, seen.ingress]


def nowhere(key: str) -> Row:
    """Return a row for an internal key of Admiralty that no other software reads; the agent never writes it."""
    return Row(
        key, lambda seen: not any({key} & (annotations(each) | labels(each)).keys() for each in seen.all.values())
    )


ROWS = (
    Row("multicluster-scheduler=enabled", lambda seen: labels(seen.space)["multicluster-scheduler"] == "enabled"),
    Row(
        P + "elect",
        lambda seen: (
            annotations(seen.proxy)[P + "elect"] == ""
            and seen.proxy["spec"]["schedulerName"] == "admiralty-proxy"
            and not any(P + "elect" in annotations(each) for each in (seen.chaperon, seen.delegate))
        ),
    ),
    Row(P + "no-reservation", lambda seen: seen.delegate["spec"]["schedulerName"] == "default-scheduler"),
    Row(
        P + "proxy-pod-scheduling-constraints",
        lambda seen: seen.proxy["spec"]["nodeSelector"] == {PROVIDER: "admiralty", REGION: "us"},
    ),
    Row(
        P + "use-constraints-from-spec-for-proxy-pod-scheduling",
        lambda seen: "nodeSelector" not in seen.unconstrained["spec"],
    ),
    Row(P + "no-prefix-label-regexp", lambda seen: labels(seen.delegate)["kept"] == "as-it-is"),
    Row(P + "sourcepod-manifest", lambda seen: manifest(seen)["metadata"]["labels"]["app"] == "web"),
    Row(P + "has-finalizer", lambda seen: labels(seen.proxy)[P + "has-finalizer"] == "true"),
    Row(
        P + "parent-uid",
        lambda seen: (
            [labels(each)[P + "parent-uid"] for each in children(seen)]
            == [each["metadata"]["uid"] for each in parents(seen)]
            and labels(seen.delegate)[P + "parent-uid"] == seen.proxy["metadata"]["uid"]
        ),
    ),
    Row(
        P + "parent-cluster-name",
        lambda seen: {labels(each)[P + "parent-cluster-name"] for each in children(seen)} == {"cd"},
    ),
    Row(P + "parent-name", lambda seen: {annotations(each)[P + "parent-name"] for each in children(seen)} == {"web"}),
    Row(
        P + "parent-namespace",
        lambda seen: {annotations(each)[P + "parent-namespace"] for each in children(seen)} == {seen.namespace},
    ),
    Row(P + "is-reserved", lambda seen: annotations(seen.candidate)[P + "is-reserved"] == "true"),
    Row(P + "is-allowed", lambda seen: annotations(seen.candidate)[P + "is-allowed"] == "true"),
    Row(P + "pod-missing-since", lambda seen: "T" in annotations(seen.lost)[P + "pod-missing-since"]),
    Row(
        P + "global",
        lambda seen: [annotations(each).get(P + "global") for each in (seen.service, seen.ingress)] == ["true"] * 2,
    ),
    Row(
        P + "is-delegate",
        lambda seen: (
            [annotations(each).get(P + "is-delegate") for each in (seen.service_copy, seen.ingress_copy)] == [""] * 2
            and P + "is-delegate" not in annotations(seen.service) | annotations(seen.config_copy)
        ),
    ),
    Row(P + "original-selector", lambda seen: annotations(seen.service)[P + "original-selector"] == "app=web"),
    Row("io.cilium/global-service", lambda seen: annotations(seen.service)["io.cilium/global-service"] == "true"),
    Row(P + "target-namespace", lambda seen: labels(seen.node)[P + "target-namespace"] == seen.namespace),
    Row(P + "target-name", lambda seen: labels(seen.node)[P + "target-name"] == "us"),
    Row(
        P + "cluster-target-name",
        lambda seen: (
            labels(seen.cluster_node)[P + "cluster-target-name"] == f"keys-{seen.namespace}"
            and P + "target-name" not in labels(seen.cluster_node)
        ),
    ),
    Row(
        PROVIDER,
        lambda seen: (
            labels(seen.node)[PROVIDER] == "admiralty"
            and {"key": PROVIDER, "value": "admiralty", "effect": "NoSchedule"} in seen.node["spec"]["taints"]
            and (PROVIDER, "admiralty")
            in [(each["key"], each.get("value")) for each in seen.proxy["spec"]["tolerations"]]
        ),
    ),
    Row(OLD_FINALIZER, lambda seen: OLD_FINALIZER not in seen.cleaned["metadata"]["finalizers"]),
    Row(P + "<ns>-<target>", lambda seen: seen.proxy["metadata"]["finalizers"] == [finalizer(seen.namespace, "us")]),
    Row(P + "clustername", lambda seen: seen.old["spec"]["schedulerName"] == "default-scheduler"),
    Row("lease admiralty-controller-manager", lambda seen: bool(seen.lease["spec"]["holderIdentity"])),
    nowhere(P + "restartedAt"),
    nowhere("virtual-kubelet.io/last-applied-node-status"),
    nowhere("virtual-kubelet.io/last-applied-object-meta"),
    nowhere("admiralty.io/aggregate-to-controller-manager"),
)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def seen(fleet: Fleet) -> AsyncIterator[Seen]:
    """A pod with every annotation and its dependencies, and an object for each key that needs a special case."""
    async with fleet.namespace(("us",)) as namespace:
        await create_all(fleet, namespace)
        for name in ("web", "own"):
            await fleet.running(namespace, name, 1)
        everyone = f"keys-{namespace}"
        await fleet.join_everywhere(namespace, "us", everyone)
        yield await look(fleet, namespace, everyone)
        await fleet.source.delete(CLUSTER_TARGETS, everyone)
        await fleet.gone(CLUSTER_TARGETS, everyone)
        await fleet.clients["us"].delete(CLUSTER_SOURCES, everyone)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.key)
async def test_the_key_is_where_the_contract_says(seen: Seen, row: Row) -> None:
    told: Any = {name: each["metadata"] for name, each in seen.all.items()}
    assert row.holds(seen), told
