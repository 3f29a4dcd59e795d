"""Promise 25: every key of the wire contract (specs, section 2.1) is where it belongs, seen on one running pod."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import pytest
import pytest_asyncio

from agent.api.kinds import CHAPERONS, CLUSTER_TARGETS, CONFIGMAPS, NAMESPACES, NODES, PODS, SECRETS
from agent.api.names import finalizer, virtual_node
from agent.sandbox.objects import apply
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, Raw

P = "multicluster.admiralty.io/"
PROVIDER = "virtual-kubelet.io/provider"
REGION = "topology.kubernetes.io/region"


@dataclass(frozen=True)
class Seen:
    """One elected pod with what belongs to it, in the source and in its target `us`."""

    namespace: str
    space: Raw
    proxy: Raw
    chaperon: Raw
    delegate: Raw
    node: Raw
    cluster_node: Raw
    original: Raw
    copy: Raw
    unconstrained: Raw
    """Chaperon of a pod whose own constraints choose its virtual node."""
    old: Raw
    """A pod that only an annotation from before 0.8 asks to send away."""

    @property
    def all(self) -> list[Raw]:
        """Every object."""
        return [getattr(self, name) for name in self.__dataclass_fields__ if name != "namespace"]


class Row(NamedTuple):
    """One key and whether it is what the contract says."""

    key: str
    holds: Callable[[Seen], bool]


def annotations(obj: Raw) -> Raw:
    return obj["metadata"].get("annotations") or {}


def labels(obj: Raw) -> Raw:
    return obj["metadata"].get("labels") or {}


def manifest(seen: Seen) -> Raw:
    """The source pod that the proxy pod carries."""
    found: Raw = msgspec.json.decode(annotations(seen.proxy)[P + "sourcepod-manifest"])
    return found


def nowhere(key: str) -> Row:
    """A key of Admiralty's own workings that nobody else reads; ours never writes it."""
    return Row(key, lambda seen: not any(key in annotations(each) for each in seen.all))


ROWS = (
    Row("multicluster-scheduler=enabled", lambda seen: labels(seen.space)["multicluster-scheduler"] == "enabled"),
    Row(P + "elect", lambda seen: annotations(seen.proxy)[P + "elect"] == "" and not _travelled(seen, "elect")),
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
            labels(seen.chaperon)[P + "parent-uid"]
            == labels(seen.delegate)[P + "parent-uid"]
            == seen.proxy["metadata"]["uid"]
            and labels(seen.copy)[P + "parent-uid"] == seen.original["metadata"]["uid"]
        ),
    ),
    Row(
        P + "parent-cluster-name",
        lambda seen: {labels(each)[P + "parent-cluster-name"] for each in (seen.chaperon, seen.copy)} == {"cd"},
    ),
    Row(
        P + "parent-name",
        lambda seen: [annotations(each)[P + "parent-name"] for each in (seen.chaperon, seen.copy)] == ["web", "web"],
    ),
    Row(P + "parent-namespace", lambda seen: annotations(seen.chaperon)[P + "parent-namespace"] == seen.namespace),
    Row(
        P + "target-namespace",
        lambda seen: labels(seen.node)[P + "target-namespace"] == seen.namespace,
    ),
    Row(P + "target-name", lambda seen: labels(seen.node)[P + "target-name"] == "us"),
    Row(
        P + "cluster-target-name",
        lambda seen: (
            labels(seen.cluster_node)[P + "cluster-target-name"].startswith("keys-")
            and P + "target-name" not in labels(seen.cluster_node)
        ),
    ),
    Row(
        PROVIDER,
        lambda seen: (
            labels(seen.node)[PROVIDER] == "admiralty"
            and {"key": PROVIDER, "value": "admiralty", "effect": "NoSchedule"} in seen.node["spec"]["taints"]
            and {"key": PROVIDER, "value": "admiralty"} in map(_bare, seen.proxy["spec"]["tolerations"])
        ),
    ),
    Row(P + "<ns>-<target>", lambda seen: seen.proxy["metadata"]["finalizers"] == [finalizer(seen.namespace, "us")]),
    Row(P + "clustername", lambda seen: seen.old["spec"]["schedulerName"] == "default-scheduler"),
    nowhere(P + "restartedAt"),
    nowhere("virtual-kubelet.io/last-applied-node-status"),
    nowhere("virtual-kubelet.io/last-applied-object-meta"),
)


def _travelled(seen: Seen, suffix: str) -> bool:
    return any(P + suffix in annotations(each) for each in (seen.chaperon, seen.delegate))


def _bare(toleration: Raw) -> Raw:
    return {key: value for key, value in toleration.items() if key in ("key", "value")}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def seen(fleet: Fleet) -> AsyncIterator[Seen]:
    """A pod with every annotation, one with its own constraints, one of long ago, and a ClusterTarget."""
    source, us = fleet.source, fleet.clients["us"]
    async with fleet.namespace() as namespace:
        name = f"keys-{namespace}"
        kubeconfig = await fleet.kubeconfig(namespace, "us")
        await apply(source, SECRETS, manifests.secret(name, namespace, kubeconfig))
        target: Raw = {"kubeconfigSecret": {"name": name, "namespace": namespace}}
        await source.create(CLUSTER_TARGETS, {"metadata": {"name": name}, "spec": target})
        await source.create(CONFIGMAPS, {"metadata": {"name": "web"}, "data": {"a": "b"}}, namespace)
        marks = {
            P + "no-reservation": "",
            P + "proxy-pod-scheduling-constraints": f"nodeSelector: {{{REGION}: us}}",
            P + "no-prefix-label-regexp": "^kept=",
        }
        volumes = [{"name": "v", "configMap": {"name": "web"}}]
        pod = manifests.pod("web", annotations=marks, volumes=volumes, schedulerName="default-scheduler")
        pod["metadata"]["labels"]["kept"] = "as-it-is"
        chooses = {P + "use-constraints-from-spec-for-proxy-pod-scheduling": ""}
        await source.create(PODS, pod, namespace)
        await source.create(PODS, manifests.pod("own", annotations=chooses, nodeSelector={REGION: "us"}), namespace)
        old = manifests.pod("old", elect=None, annotations={P + "clustername": "us"})
        await source.create(PODS, old, namespace)
        await fleet.running(namespace, "web", 1)
        await fleet.running(namespace, "own", 1)
        chaperons = {annotations(each)[P + "parent-name"]: each for each in await us.list(CHAPERONS, namespace)}
        node = await fleet.until(
            "the ClusterTarget has a node", lambda: source.get(NODES, virtual_node("", name)), about=namespace
        )
        yield Seen(
            namespace=namespace,
            space=await source.get(NAMESPACES, namespace),
            proxy=await source.get(PODS, "web", namespace),
            chaperon=chaperons["web"],
            delegate=await us.get(PODS, chaperons["web"]["metadata"]["name"], namespace),
            node=await source.get(NODES, virtual_node(namespace, "us")),
            cluster_node=node,
            original=await source.get(CONFIGMAPS, "web", namespace),
            copy=await us.get(CONFIGMAPS, "web", namespace),
            unconstrained=chaperons["own"],
            old=await source.get(PODS, "old", namespace),
        )
        await source.delete(CLUSTER_TARGETS, name)
        await fleet.gone(CLUSTER_TARGETS, name)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.key)
async def test_the_key_is_where_the_contract_says(seen: Seen, row: Row) -> None:
    told: Any = {each["metadata"]["name"]: each["metadata"] for each in seen.all}
    assert row.holds(seen), told


ELSEWHERE = {
    P + "is-reserved": "tests/peers/test_source_peer.py",
    P + "is-allowed": "tests/peers/test_source_peer.py",
    P + "pod-missing-since": "tests/controllers/test_chaperon_decide.py",
    P + "multiclusterForegroundDeletion": "tests/controllers/test_cleanup.py",
}
"""Keys that appear only when something goes another way, and where that is tested."""


@pytest.mark.parametrize(("key", "file"), ELSEWHERE.items(), ids=lambda value: str(value).rpartition("/")[2])
def test_the_key_is_tested_elsewhere(key: str, file: str, pytestconfig: pytest.Config) -> None:
    text = (pytestconfig.rootpath / file).read_text()
    constants = {"is-reserved": "RESERVED", "is-allowed": "ALLOWED", "pod-missing-since": "MISSING"}
    wanted = constants.get(key.removeprefix(P), "FINALIZER_V010")
    assert wanted in text
