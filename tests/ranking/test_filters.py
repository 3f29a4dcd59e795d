from typing import Any

import pytest

from agent.ranking.filter_cache import CachedResult
from agent.ranking.rejection import Rejection
from agent.ranking.snapshot import PodInfo, TargetInfo, amounts
from agent.ranking.usage import Usage
from tests.ranking.pods_and_targets import WEIGHTS, pod_info, shape, target_info


def refuse(pod_info: PodInfo, target_info: TargetInfo) -> Rejection | None:
    return CachedResult(pod_info.template, target_info, Usage(target_info.node_name), WEIGHTS).rejection


GPU_TAINT = ({"key": "gpu", "value": "yes", "effect": "NoSchedule"},)
EU_ONLY = {"nodeSelector": {"topology.kubernetes.io/region": "eu"}}


def required(key: str, *values: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


FITS: dict[str, tuple[PodInfo, TargetInfo]] = {
    "it asks for nothing and the target tells nothing": (pod_info(), target_info("eu")),
    "the target serves all namespaces": (pod_info(), target_info("eu", namespace="")),
    "the proxy pod selects the virtual node": (pod_info(proxy=EU_ONLY), target_info("eu")),
    "the proxy pod's affinity matches": (
        pod_info(proxy={"affinity": required("topology.kubernetes.io/region", "eu", "us")}),
        target_info("eu"),
    ),
    "one of several kinds of nodes has room": (
        pod_info(cpu="3"),
        target_info("eu", shapes=(shape(cpu="2"), shape(cpu="4"))),
    ),
    "it takes a node whole": (pod_info(cpu="4"), target_info("eu", shapes=(shape(),))),
    "its selector matches one kind of nodes": (
        pod_info(source={"nodeSelector": {"os": "linux", "disk": "ssd"}}),
        target_info("eu", shapes=(shape({"os": "linux"}), shape({"os": "linux", "disk": "ssd"}))),
    ),
    "a node that it names cannot be judged from afar": (
        pod_info(source={"nodeSelector": {"kubernetes.io/hostname": "n", "disk": "ssd"}}),
        target_info("eu", shapes=(shape({"disk": "ssd"}),)),
    ),
    "affinity to a host cannot be judged from afar": (
        pod_info(source={"affinity": required("kubernetes.io/hostname", "n")}),
        target_info("eu", shapes=(shape(),)),
    ),
    "it tolerates the nodes' taint": (
        pod_info(source={"tolerations": [{"key": "gpu", "operator": "Exists"}]}),
        target_info("eu", shapes=(shape(taints=GPU_TAINT),)),
    ),
    "affinity to a node by name cannot be judged from afar": (
        pod_info(
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
        target_info("eu", shapes=(shape(),)),
    ),
    "only sums are known and they suffice": (
        pod_info(cpu="4"),
        target_info("eu", allocatable=amounts({"cpu": "4", "pods": "10"})),
    ),
    "a label is not the same on all nodes": (pod_info(source={"nodeSelector": {"disk": "ssd"}}), target_info("eu")),
}


@pytest.mark.parametrize(("pod_info", "target_info"), FITS.values(), ids=FITS.keys())
def test_a_pod_may_go_there_when(pod_info: PodInfo, target_info: TargetInfo) -> None:
    assert refuse(pod_info, target_info) is None


REFUSED: dict[str, tuple[PodInfo, TargetInfo, str, str]] = {
    "the target serves another namespace": (pod_info(), target_info("eu", namespace="x"), "OtherNamespace", "(x)"),
    "the target is not ready": (
        pod_info(),
        target_info("eu", ready=False, state="no answer"),
        "TargetNotReady",
        "no answer",
    ),
    "the virtual node is cordoned": (pod_info(), target_info("eu", unschedulable=True), "Cordoned", "cordoned"),
    "the virtual node is tainted": (pod_info(), target_info("eu", taints=GPU_TAINT), "Tainted", "taint gpu=yes"),
    "the proxy pod selects another region": (
        pod_info(proxy=EU_ONLY),
        target_info("us"),
        "NodeSelector",
        "node selector",
    ),
    "the proxy pod's affinity does not match": (
        pod_info(proxy={"affinity": required("topology.kubernetes.io/region", "ap")}),
        target_info("eu"),
        "NodeAffinity",
        "node affinity",
    ),
    "no node matches its selector": (
        pod_info(source={"nodeSelector": {"disk": "ssd"}}),
        target_info("eu", shapes=(shape({"disk": "hdd"}),)),
        "NoNode",
        "node selector",
    ),
    "no node matches its affinity": (
        pod_info(source={"affinity": required("disk", "ssd")}),
        target_info("eu", shapes=(shape({"disk": "hdd"}),)),
        "NoNode",
        "affinity",
    ),
    "the only matching node is cordoned": (
        pod_info(),
        target_info("eu", shapes=(shape(cordoned=True),)),
        "NoNode",
        "no node",
    ),
    "every node is tainted": (pod_info(), target_info("eu", shapes=(shape(taints=GPU_TAINT),)), "NoNode", "taint"),
    "no node is large enough": (
        pod_info(cpu="5"),
        target_info("eu", shapes=(shape(cpu="2"), shape(cpu="4"))),
        "TooBig",
        "insufficient cpu on every node (largest 4)",
    ),
    "no node has the resource": (
        pod_info(**{"example.com/gpu": "1"}),
        target_info("eu", shapes=(shape(),)),
        "TooBig",
        "example.com/gpu on every node (largest 0)",
    ),
    "each resource is there but never on one node": (
        pod_info(cpu="4", memory="8Gi"),
        target_info("eu", shapes=(shape(memory="1Gi"), shape(cpu="1"))),
        "TooBig",
        "no single node",
    ),
    "the large node is tainted": (
        pod_info(cpu="4"),
        target_info("eu", shapes=(shape(cpu="1"), shape(taints=GPU_TAINT))),
        "TooBig",
        "largest 1",
    ),
    "all nodes together are too small": (
        pod_info(cpu="5"),
        target_info("eu", allocatable=amounts({"cpu": "4", "pods": "10"})),
        "TooBig",
        "whole target",
    ),
    "all nodes agree on another label": (
        pod_info(source={"nodeSelector": {"os": "windows"}}),
        target_info("eu", common_labels={"os": "linux"}),
        "NoNode",
        "os=windows",
    ),
}


@pytest.mark.parametrize(("pod_info", "target_info", "reason", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_a_pod_is_kept_away_when(pod_info: PodInfo, target_info: TargetInfo, reason: str, words: str) -> None:
    rejection = refuse(pod_info, target_info)
    assert rejection is not None
    assert rejection.reason == reason
    assert words in rejection.message
