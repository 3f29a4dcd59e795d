"""Each leftover at the end of a soak is reported."""

import copy
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import (
    CERTIFICATE_REQUESTS,
    CHAPERONS,
    CONFIGMAPS,
    ENDPOINT_SLICES,
    LEASES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    SERVICES,
    Kind,
)
from hack.lab.soak.leftovers import EVERYWHERE, IN_NAMESPACE, Listed, last_made, problems
from hack.lab.soak.manifests import APP
from hack.lab.soak.plan import Step

Raw = dict[str, Any]
Objects = dict[Kind, list[Raw]]

WANTED = {
    "web-1": Step(0.0, "create", "Deployment", "web-1", 1),
    "job-2": Step(0.0, "create", "Job", "job-2", 1),
    "misfit-3": Step(0.0, "create", "Misfit", "misfit-3", 1),
}


def metadata(name: str, uid: str = "", parent: str = "", **labels: str) -> Raw:
    found = {"name": name, "uid": uid or name, "labels": dict(labels)}
    if parent:
        found["labels"] = {**labels, names.LABEL_PARENT_UID: parent}
    return found


def pod(app: str, phase: str, node: str = "admiralty-default-us") -> Raw:
    spec = {"nodeName": node} if node else {}
    return {"metadata": metadata(f"{app}-a", app, **{APP: app}), "spec": spec, "status": {"phase": phase}}


def child(parent: str, phase: str = "") -> Raw:
    return {"metadata": metadata(f"{parent}-b", f"of {parent}", parent), "spec": {}, "status": {"phase": phase}}


def node(name: str, ready: str = "True", *taints: str) -> Raw:
    found = metadata(name, **({names.PROVIDER_KEY: names.PROVIDER_VALUE} if name.startswith("admiralty") else {}))
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    return {"metadata": found, "spec": {"taints": [{"key": key} for key in taints]}, "status": status}


def nothing() -> Objects:
    return {kind: [] for kind in (*IN_NAMESPACE, *EVERYWHERE, LEASES)}


def source() -> Objects:
    found = nothing()
    found[PODS] = [pod("web-1", "Running"), pod("job-2", "Succeeded"), pod("misfit-3", "Pending", "")]
    found[CONFIGMAPS] = [{"metadata": metadata("web-1", "original")}]
    found[NODES] = [node("cd-node-0"), node("admiralty-default-us")]
    found[LEASES] = [{"metadata": metadata("cd-node-0")}, {"metadata": metadata("admiralty-default-us")}]
    found[CERTIFICATE_REQUESTS] = [
        {"metadata": metadata("csr-1"), "status": {"certificate": "x"}},
        {"metadata": metadata("csr-0"), "status": {"conditions": [{"type": "Denied", "status": "True"}]}},
    ]
    return found


def target() -> Objects:
    found = nothing()
    found[PODS] = [child("web-1", "Running"), child("job-2", "Succeeded")]
    found[CHAPERONS] = [child("web-1"), child("job-2")]
    found[CONFIGMAPS] = [{"metadata": metadata("web-1", "copy", "original")}, {"metadata": metadata("theirs")}]
    found[SERVICES] = [{"metadata": metadata("kubernetes")}]
    found[ENDPOINT_SLICES] = [{"metadata": metadata("kubernetes", **{names.LABEL_SERVICE_NAME: "kubernetes"})}]
    return found


def found(cd: Objects, us: Objects, eu: Objects | None = None) -> list[str]:
    return problems(Listed("cd", cd), [Listed("us", us), Listed("eu", eu or nothing())], WANTED)


def test_nothing_is_told_when_all_is_well() -> None:
    assert found(source(), target()) == []


def test_of_the_pods_that_are_wanted_the_youngest_tells_when_a_controller_made_the_last() -> None:
    cd = nothing()
    assert last_made(Listed("cd", cd), WANTED) == 0.0
    cd[PODS] = [pod("web-1", "Running"), pod("job-2", "Running"), pod("web-0", "Running"), child("theirs")]
    for obj, second in zip(cd[PODS], (5, 7, 8, 9), strict=True):
        obj["metadata"]["creationTimestamp"] = f"1970-01-01T00:00:0{second}Z"
    assert last_made(Listed("cd", cd), WANTED) == 7.0


def test_when_nothing_is_wanted_nothing_may_be_left() -> None:
    told = problems(Listed("cd", source()), [Listed("us", target())], {})
    assert [each.partition(" ")[0] for each in told] == ["web-1", "job-2", "misfit-3"]


@pytest.mark.parametrize(
    ("where", "kind", "objects", "want"),
    [
        ("cd", PODS, [], "Deployment web-1: 0 of 1 pods are Running, it has 0"),
        (
            "cd",
            PODS,
            [pod("web-1", "Pending")],
            "Deployment web-1: 0 of 1 pods are Running, it has 1; web-1-a (Pending",
        ),
        ("cd", PODS, [pod("web-1", "Running"), pod("old", "Running")], "old is not wanted any more and has 1 pods"),
        ("cd", NODES, [node("cd-node-0"), node("admiralty-default-us", "Unknown")], "is not Ready"),
        (
            "cd",
            NODES,
            [node("cd-node-0"), node("admiralty-default-us", "True", names.TAINT_UNREACHABLE)],
            f"has taints: {names.TAINT_UNREACHABLE}",
        ),
        ("cd", LEASES, [{"metadata": metadata("old")}], "the lease old is of no node"),
        ("cd", CERTIFICATE_REQUESTS, [{"metadata": metadata("csr-2")}], "csr-2 has no certificate"),
        (
            "cd",
            PERSISTENT_VOLUMES,
            [{"metadata": metadata("v", **{names.LABEL_STAND_IN: "true"}), "spec": {"claimRef": {"uid": "old"}}}],
            "cd: the claim that v stands for is gone",
        ),
        ("cd", CONFIGMAPS, [], "us: the original of ConfigMap web-1 is gone"),
        (
            "us",
            PODS,
            [child("web-1", "Running")],
            "job-2-a (Succeeded, on admiralty-default-us) has 0 objects of kind Pod",
        ),
        (
            "us",
            PODS,
            [child("web-1", "Pending"), child("job-2", "Succeeded")],
            "us: delegate web-1-b (Pending, on no node)",
        ),
        ("us", PODS, [child("web-1", "Running"), child("job-2", "Succeeded"), child("x")], "us: Pod x-b is of no pod"),
        (
            "us",
            PODS,
            [child("web-1", "Running"), child("job-2", "Succeeded"), {"metadata": {"name": "y"}}],
            "Pod y is of",
        ),
        ("us", CHAPERONS, [child("web-1"), child("job-2"), child("x")], "us: PodChaperon x-b is of no pod"),
        ("us", CHAPERONS, [child("web-1")], "has 0 objects of kind PodChaperon"),
        (
            "eu",
            PODS,
            [child("web-1", "Running")],
            "web-1-a (Running, on admiralty-default-us) has 2 objects of kind Pod",
        ),
        ("us", SERVICES, [], "us: EndpointSlice kubernetes is of no Service"),
        (
            "us",
            PERSISTENT_VOLUME_CLAIMS,
            [{"metadata": {"name": "data", "deletionTimestamp": "x", "finalizers": ["f"]}}],
            "us: PersistentVolumeClaim data is still going (f)",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_everything_that_is_not_well_is_told(where: str, kind: Kind, objects: list[Raw], want: str) -> None:
    there = {"cd": source(), "us": target(), "eu": nothing()}
    there[where][kind] = copy.deepcopy(objects)
    told = found(there["cd"], there["us"], there["eu"])
    assert any(want in each for each in told), told


def test_what_is_going_is_not_yet_gone() -> None:
    cd = source()
    cd[PODS][0]["metadata"]["deletionTimestamp"] = "x"
    assert "cd: Pod web-1-a is still going (no finalizer)" in found(cd, target())


def test_a_claim_that_says_since_when_it_is_kept_though_its_original_is_gone_is_nothing_left() -> None:
    def left(**annotations: str) -> list[str]:
        claim = {"metadata": {**metadata("data-db-1-0", "claim", "gone"), "annotations": annotations}}
        there = {**nothing(), PERSISTENT_VOLUME_CLAIMS: [claim]}
        return problems(Listed("cd", nothing()), [Listed("us", there)], {})

    assert left() == ["us: the original of PersistentVolumeClaim data-db-1-0 is gone"]
    assert left(**{names.ANNOTATION_ORPHANED_SINCE: "2026-01-01T00:00:00Z"}) == []
