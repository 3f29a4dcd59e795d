"""Objects for the table of annotation and label keys: elected pods, their dependencies, and objects with rare
keys."""

from dataclasses import dataclass, fields

from agent.api.kinds import CHAPERONS, CONFIGMAPS, INGRESSES, LEASES, NAMESPACES, NODES, PODS, SERVICES
from agent.api.names import virtual_node
from tests.e2e import manifests, shared
from tests.e2e.fleet import Fleet, Raw
from tests.peers.contract import annotation, bind

P = "multicluster.admiralty.io/"
PROVIDER = "virtual-kubelet.io/provider"
REGION = "topology.kubernetes.io/region"
OLD_FINALIZER = P + "multiclusterForegroundDeletion"


@dataclass(frozen=True)
class Seen:
    """Elected pods and the objects that belong to them, in the source and in its target `us`."""

    namespace: str
    space: Raw
    proxy: Raw
    chaperon: Raw
    delegate: Raw
    config: Raw
    config_copy: Raw
    service: Raw
    service_copy: Raw
    ingress: Raw
    ingress_copy: Raw
    node: Raw
    cluster_node: Raw
    unconstrained: Raw
    """Chaperon of a pod whose own constraints select its virtual node."""
    old: Raw
    """Pod that is elected only by an annotation used before v0.8."""
    cleaned: Raw
    """Proxy pod that had the finalizer of v0.10."""
    candidate: Raw
    """Chaperon of a pod in mode `reserve`, whose reservation the test itself has set."""
    lost: Raw
    """Chaperon whose pod has been deleted."""
    lease: Raw

    @property
    def all(self) -> dict[str, Raw]:
        """All objects by field name."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "namespace"}


def annotations(obj: Raw) -> Raw:
    """Return an object's annotations; {} for none."""
    return obj["metadata"].get("annotations") or {}


def labels(obj: Raw) -> Raw:
    """Return an object's labels; {} for none."""
    return obj["metadata"].get("labels") or {}


async def create_all(fleet: Fleet, namespace: str) -> None:
    """Create the objects of the user, and a chaperon of another source."""
    source, chooses = fleet.source, P + "use-constraints-from-spec-for-proxy-pod-scheduling"
    marks = {
        P + "no-reservation": "",
        P + "proxy-pod-scheduling-constraints": f"nodeSelector: {{{REGION}: us}}",
        P + "no-prefix-label-regexp": "^kept=",
    }
    volumes = [{"name": "v", "configMap": {"name": "web"}}]
    web = manifests.pod("web", annotations=marks, volumes=volumes)
    web["metadata"]["labels"]["kept"] = "as-it-is"
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    rule = {"http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}
    await source.create(CONFIGMAPS, {"metadata": {"name": "web"}, "data": {"a": "b"}}, namespace)
    await shared.reroutes(fleet, namespace, "always")
    await source.create(SERVICES, shared.service("web"), namespace)
    await source.create(INGRESSES, {"metadata": {"name": "web"}, "spec": {"rules": [rule]}}, namespace)
    for pod in (
        web,
        manifests.pod("own", annotations={chooses: ""}, nodeSelector={REGION: "us"}),
        manifests.pod("old", elect=None, annotations={P + "clustername": "us"}),
        manifests.pod("patient", annotations={"multicluster/scheduling": "reserve"}),
    ):
        await source.create(PODS, pod, namespace)
    lost: Raw = {
        "apiVersion": CHAPERONS.api_version,
        "kind": CHAPERONS.name,
        "metadata": {"name": "lost", "labels": {P + "parent-uid": "of-another-cluster"}},
        "spec": manifests.pod_spec(),
    }
    await fleet.clients["us"].create(CHAPERONS, lost, namespace)


async def look(fleet: Fleet, namespace: str, everyone: str) -> Seen:
    """Return all objects once they are in their final state."""
    source, us = fleet.source, fleet.clients["us"]
    service = await shared.rerouted(fleet, namespace, "web")
    chaperon = await chaperon_of(fleet, namespace, "web")
    candidate = await play_the_candidate_scheduler(fleet, namespace)
    return Seen(
        namespace=namespace,
        space=await source.get(NAMESPACES, namespace),
        proxy=await source.get(PODS, "web", namespace),
        chaperon=chaperon,
        delegate=await us.get(PODS, chaperon["metadata"]["name"], namespace),
        config=await source.get(CONFIGMAPS, "web", namespace),
        config_copy=await us.get(CONFIGMAPS, "web", namespace),
        service=service,
        service_copy=await shared.has(fleet, "us", SERVICES, namespace, "web", bool),
        ingress=await shared.has(fleet, "cd", INGRESSES, namespace, "web", lambda found: annotations(found)),
        ingress_copy=await shared.has(fleet, "us", INGRESSES, namespace, "web", bool),
        node=await source.get(NODES, virtual_node(namespace, "us")),
        cluster_node=await source.get(NODES, virtual_node("", everyone)),
        unconstrained=await chaperon_of(fleet, namespace, "own"),
        old=await source.get(PODS, "old", namespace),
        cleaned=await cleaned(fleet, namespace),
        candidate=candidate,
        lost=await lost(fleet, namespace),
        lease=await source.get(LEASES, "admiralty-controller-manager", fleet.home),
    )


async def chaperon_of(fleet: Fleet, namespace: str, pod: str) -> Raw:
    async def probe() -> Raw | None:
        found = await fleet.clients["us"].list(CHAPERONS, namespace)
        return next((each for each in found if annotations(each).get(P + "parent-name") == pod), None)

    found = await fleet.until(f"pod {pod} has a chaperon", probe, about=namespace)
    assert found is not None
    return found


async def play_the_candidate_scheduler(fleet: Fleet, namespace: str) -> Raw:
    """Reserve a node for the candidate, wait until it is allowed, and bind it, like Admiralty's scheduler
    (section 4.2)."""
    us, name = fleet.clients["us"], (await chaperon_of(fleet, namespace, "patient"))["metadata"]["name"]
    pod = await shared.has(fleet, "us", PODS, namespace, name, bool)
    assert pod["spec"]["schedulerName"] == "admiralty-candidate"
    await us.patch(CHAPERONS, name, annotation(P + "is-reserved", "true"), namespace)
    allowed = await shared.has(
        fleet, "us", CHAPERONS, namespace, name, lambda found: P + "is-allowed" in annotations(found)
    )
    nodes = await us.list(NODES, labels="type=kwok")
    await bind(us, pod, nodes[0]["metadata"]["name"])
    await fleet.running(namespace, "patient", 1)
    return allowed


async def cleaned(fleet: Fleet, namespace: str) -> Raw:
    """Add the finalizer of v0.10 to a pod, and return the pod once the agent has removed it."""
    before = (await fleet.source.get(PODS, "own", namespace))["metadata"]["finalizers"]
    await fleet.source.patch(PODS, "own", {"metadata": {"finalizers": [*before, OLD_FINALIZER]}}, namespace)
    return await shared.has(
        fleet, "cd", PODS, namespace, "own", lambda found: found["metadata"].get("finalizers") == before
    )


async def lost(fleet: Fleet, namespace: str) -> Raw:
    """Delete the pod of the other source's chaperon; return the chaperon once it is marked as missing its pod."""
    us = fleet.clients["us"]
    await shared.has(fleet, "us", CHAPERONS, namespace, "lost", lambda found: found.get("status", {}).get("podIP"))
    await us.delete(PODS, "lost", namespace, grace=0)
    missing = P + "pod-missing-since"
    found = await shared.has(fleet, "us", CHAPERONS, namespace, "lost", lambda found: missing in annotations(found))
    await us.delete(CHAPERONS, "lost", namespace)
    return found
