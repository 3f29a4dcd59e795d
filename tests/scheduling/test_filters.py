from typing import Any

import pytest

from agent.scheduling.examined import Examined
from agent.scheduling.holdings import Holding
from agent.scheduling.snapshot import Demand, Place, amounts
from agent.scheduling.verdict import Verdict
from tests.scheduling.places import WEIGHTS, demand, place, shape


def refuse(demand: Demand, place: Place) -> Verdict | None:
    return Examined(demand.wants, place, Holding(place.node_name), WEIGHTS).verdict


GPU_TAINT = ({"key": "gpu", "value": "yes", "effect": "NoSchedule"},)
EU_ONLY = {"nodeSelector": {"topology.kubernetes.io/region": "eu"}}


def required(key: str, *values: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


FITS: dict[str, tuple[Demand, Place]] = {
    "it asks for nothing and the target tells nothing": (demand(), place("eu")),
    "the target serves all namespaces": (demand(), place("eu", namespace="")),
    "the proxy pod selects the virtual node": (demand(proxy=EU_ONLY), place("eu")),
    "the proxy pod's affinity matches": (
        demand(proxy={"affinity": required("topology.kubernetes.io/region", "eu", "us")}),
        place("eu"),
    ),
    "one of several kinds of nodes has room": (demand(cpu="3"), place("eu", shapes=(shape(cpu="2"), shape(cpu="4")))),
    "it takes a node whole": (demand(cpu="4"), place("eu", shapes=(shape(),))),
    "its selector matches one kind of nodes": (
        demand(source={"nodeSelector": {"os": "linux", "disk": "ssd"}}),
        place("eu", shapes=(shape({"os": "linux"}), shape({"os": "linux", "disk": "ssd"}))),
    ),
    "a node that it names cannot be judged from afar": (
        demand(source={"nodeSelector": {"kubernetes.io/hostname": "n", "disk": "ssd"}}),
        place("eu", shapes=(shape({"disk": "ssd"}),)),
    ),
    "affinity to a host cannot be judged from afar": (
        demand(source={"affinity": required("kubernetes.io/hostname", "n")}),
        place("eu", shapes=(shape(),)),
    ),
    "it tolerates the nodes' taint": (
        demand(source={"tolerations": [{"key": "gpu", "operator": "Exists"}]}),
        place("eu", shapes=(shape(taints=GPU_TAINT),)),
    ),
    "affinity to a node by name cannot be judged from afar": (
        demand(
            source={
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
                            ]
                        }
                    }
                }
            }
        ),
        place("eu", shapes=(shape(),)),
    ),
    "only sums are known and they suffice": (
        demand(cpu="4"),
        place("eu", allocatable=amounts({"cpu": "4", "pods": "10"})),
    ),
    "a label is not the same on all nodes": (demand(source={"nodeSelector": {"disk": "ssd"}}), place("eu")),
}


@pytest.mark.parametrize(("demand", "place"), FITS.values(), ids=FITS.keys())
def test_a_pod_may_go_there_when(demand: Demand, place: Place) -> None:
    assert refuse(demand, place) is None


REFUSED: dict[str, tuple[Demand, Place, str, str]] = {
    "the target serves another namespace": (demand(), place("eu", namespace="x"), "OtherNamespace", "(x)"),
    "the target is not ready": (demand(), place("eu", ready=False, state="no answer"), "TargetNotReady", "no answer"),
    "the virtual node is cordoned": (demand(), place("eu", unschedulable=True), "Cordoned", "cordoned"),
    "the virtual node is tainted": (demand(), place("eu", taints=GPU_TAINT), "Tainted", "taint gpu=yes"),
    "the proxy pod selects another region": (demand(proxy=EU_ONLY), place("us"), "NodeSelector", "node selector"),
    "the proxy pod's affinity does not match": (
        demand(proxy={"affinity": required("topology.kubernetes.io/region", "ap")}),
        place("eu"),
        "NodeAffinity",
        "node affinity",
    ),
    "no node matches its selector": (
        demand(source={"nodeSelector": {"disk": "ssd"}}),
        place("eu", shapes=(shape({"disk": "hdd"}),)),
        "NoNode",
        "node selector",
    ),
    "no node matches its affinity": (
        demand(source={"affinity": required("disk", "ssd")}),
        place("eu", shapes=(shape({"disk": "hdd"}),)),
        "NoNode",
        "affinity",
    ),
    "the only matching node is cordoned": (demand(), place("eu", shapes=(shape(cordoned=True),)), "NoNode", "no node"),
    "every node is tainted": (demand(), place("eu", shapes=(shape(taints=GPU_TAINT),)), "NoNode", "taint"),
    "no node is large enough": (
        demand(cpu="5"),
        place("eu", shapes=(shape(cpu="2"), shape(cpu="4"))),
        "TooBig",
        "insufficient cpu on every node (largest 4)",
    ),
    "no node has the resource": (
        demand(**{"example.com/gpu": "1"}),
        place("eu", shapes=(shape(),)),
        "TooBig",
        "example.com/gpu on every node (largest 0)",
    ),
    "each resource is there but never on one node": (
        demand(cpu="4", memory="8Gi"),
        place("eu", shapes=(shape(memory="1Gi"), shape(cpu="1"))),
        "TooBig",
        "no single node",
    ),
    "the large node is tainted": (
        demand(cpu="4"),
        place("eu", shapes=(shape(cpu="1"), shape(taints=GPU_TAINT))),
        "TooBig",
        "largest 1",
    ),
    "all nodes together are too small": (
        demand(cpu="5"),
        place("eu", allocatable=amounts({"cpu": "4", "pods": "10"})),
        "TooBig",
        "whole target",
    ),
    "all nodes agree on another label": (
        demand(source={"nodeSelector": {"os": "windows"}}),
        place("eu", common_labels={"os": "linux"}),
        "NoNode",
        "os=windows",
    ),
}


@pytest.mark.parametrize(("demand", "place", "reason", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_a_pod_is_kept_away_when(demand: Demand, place: Place, reason: str, words: str) -> None:
    verdict = refuse(demand, place)
    assert verdict is not None
    assert verdict.reason == reason
    assert words in verdict.message
