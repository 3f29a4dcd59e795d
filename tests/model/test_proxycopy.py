"""Copies of a proxy pod by `kubectl debug --copy-to`, and their treatment by the webhook."""

import copy
import json
from typing import Any

import pytest

from agent.model.delegatepod import chaperon
from agent.model.proxypod import InvalidPod, is_elected, proxy_pod, source_pod
from tests.model.pods import P, pod

Raw = dict[str, Any]
FINALIZERS = [P + "default-c2"]
CONSTRAINTS = P + "proxy-pod-scheduling-constraints"
USE_SPEC = P + "use-constraints-from-spec-for-proxy-pod-scheduling"
DEBUGGER = {"name": "debugger", "image": "tools"}


def copied(proxy: Raw, *, annotations: bool, labels: bool = False) -> Raw:
    """Return the copy as kubectl sends it: with an additional container, another image, and a shared process
    namespace."""
    metadata = proxy["metadata"]
    sent: Raw = {"name": "copy", "namespace": metadata["namespace"]}
    if annotations:
        sent["annotations"] = {
            **metadata["annotations"],
            "multicluster/claim": "admiralty-c2",
            "multicluster/attempts": "{}",
        }
    if labels:
        sent["labels"] = metadata["labels"]
    spec = copy.deepcopy(proxy["spec"]) | {"shareProcessNamespace": True}
    spec["containers"] = [{**spec["containers"][0], "image": "newer"}, DEBUGGER]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": sent, "spec": spec}


def generated() -> Raw:
    """Return a pod of a Deployment, as the webhook receives it."""
    made = pod()
    del made["metadata"]["name"]
    return made | {"metadata": {**made["metadata"], "generateName": "web-7d-"}}


@pytest.mark.parametrize("source", [pod(), generated()], ids=["named", "of a Deployment"])
def test_a_copy_with_annotations_is_as_the_pod_that_was_copied_with_what_was_changed(source: Raw) -> None:
    sent = copied(proxy_pod(source, FINALIZERS), annotations=True)
    proxy = proxy_pod(sent, FINALIZERS)
    meant = source_pod(proxy)
    assert meant["spec"] == source["spec"] | {key: sent["spec"][key] for key in ("containers", "shareProcessNamespace")}
    assert meant["metadata"] == {
        "name": "copy",
        "namespace": "default",
        "labels": {},
        "annotations": source["metadata"]["annotations"],
    }
    assert proxy["spec"] == sent["spec"]
    assert proxy["metadata"]["finalizers"] == FINALIZERS
    assert not any(key.startswith("multicluster/") for key in proxy["metadata"]["annotations"])


def test_a_copy_without_annotations_is_elected_and_may_run_in_any_target() -> None:
    sent = copied(proxy_pod(pod(), FINALIZERS), annotations=False)
    assert is_elected(sent)
    proxy = proxy_pod(sent, FINALIZERS)
    assert proxy["spec"] == sent["spec"]
    delegate = chaperon({**proxy, "metadata": {**proxy["metadata"], "uid": "U"}}, cluster_name="cd", cluster_uid="C")
    containers = delegate["spec"]["containers"]
    assert [(each["name"], each["image"]) for each in containers] == [("main", "newer"), ("debugger", "tools")]
    assert delegate["spec"]["shareProcessNamespace"] is True
    of_proxies = {"nodeSelector", "tolerations", "schedulerName", "terminationGracePeriodSeconds"}
    assert not of_proxies & delegate["spec"].keys()


def test_a_copy_without_annotations_may_run_where_the_proxy_pod_might() -> None:
    wanted = {"nodeSelector": {"zone": "a"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]}
    source = pod({USE_SPEC: ""}, spec=wanted)
    sent = copied(proxy_pod(source, FINALIZERS), annotations=False)
    proxy = proxy_pod(sent, FINALIZERS)
    assert proxy["spec"] == sent["spec"]
    assert json.loads(source_pod(proxy)["metadata"]["annotations"][CONSTRAINTS]) == wanted
    assert not wanted.keys() & source_pod(proxy)["spec"].keys()


def test_labels_that_are_kept_are_those_of_the_user() -> None:
    source = pod()
    sent = copied(proxy_pod(source, FINALIZERS), annotations=False, labels=True)
    proxy = proxy_pod(sent, FINALIZERS)
    assert source_pod(proxy)["metadata"]["labels"] == source["metadata"]["labels"]
    assert proxy["metadata"]["labels"] == sent["metadata"]["labels"]


@pytest.mark.parametrize("annotations", [True, False], ids=["with annotations", "without"])
def test_a_copy_is_the_same_when_the_webhook_is_asked_again(annotations: bool) -> None:
    once = proxy_pod(copied(proxy_pod(pod(), FINALIZERS), annotations=annotations), FINALIZERS)
    assert proxy_pod(once, FINALIZERS) == once


def test_a_copy_of_a_copy_is_one() -> None:
    first = proxy_pod(copied(proxy_pod(pod(), FINALIZERS), annotations=False), FINALIZERS)
    second = copied(first, annotations=True)
    second["metadata"]["name"] = "another"
    again = proxy_pod(second, FINALIZERS)
    assert source_pod(again)["metadata"]["name"] == "another"
    assert source_pod(again)["spec"]["containers"][-1] == DEBUGGER


def test_a_pod_that_is_restored_under_a_generated_name_is_no_copy() -> None:
    proxy = proxy_pod(generated(), FINALIZERS)
    restored = copy.deepcopy(proxy)
    restored["metadata"]["name"] = "web-7d-x"
    restored["spec"]["containers"] = [*restored["spec"]["containers"], {"name": "sidecar", "image": "s"}]
    assert proxy_pod(restored, FINALIZERS) == restored


def test_a_copy_on_the_same_node_is_refused_with_what_to_do() -> None:
    sent = copied(proxy_pod(pod(), FINALIZERS), annotations=False)
    sent["spec"]["nodeName"] = "admiralty-default-c2"
    with pytest.raises(InvalidPod, match="remove the field"):
        proxy_pod(sent, FINALIZERS)


def test_who_opts_out_stays_out() -> None:
    sent = copied(proxy_pod(pod(), FINALIZERS), annotations=False)
    sent["metadata"]["annotations"] = {"multicluster/elect": "false"}
    assert not is_elected(sent)
