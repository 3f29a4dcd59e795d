"""Constraints that a queue writes into a gated proxy pod, before it opens the gate."""

import json
from typing import Any

import pytest

from agent.api import names
from agent.model.delegatepod import chaperon
from agent.model.errors import InvalidPod
from agent.model.proxypod import proxy_pod
from agent.scheduler.cache.pod_info import pod_info_of

Raw = dict[str, Any]

USE_SPEC = {names.PREFIX + names.USE_CONSTRAINTS: ""}
PROXY_SELECTOR = {names.PROVIDER_KEY: names.PROVIDER_VALUE}


def terms(*each: Raw) -> Raw:
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(each)}}


def is_in(key: str, *values: str) -> Raw:
    return {"key": key, "operator": "In", "values": list(values)}


def term(*requirements: Raw) -> Raw:
    return {"matchExpressions": list(requirements)}


def proxy(annotations: Raw | None = None, **spec: Any) -> Raw:
    """Return the proxy pod of an elected pod with these user constraints."""
    metadata = {"name": "web", "namespace": "ns", "uid": "u", "annotations": annotations or {}}
    return proxy_pod({"metadata": metadata, "spec": {"containers": [{"name": "main"}], **spec}}, [])


def delegate(found: Raw) -> Raw:
    spec: Raw = chaperon(found, cluster_name="", cluster_uid="")["spec"]
    return spec


def test_an_added_node_selector_is_the_delegates_and_chooses_no_virtual_node() -> None:
    found = proxy(nodeSelector={"disk": "ssd"})
    found["spec"]["nodeSelector"] |= {"pool": "fast"}
    assert delegate(found)["nodeSelector"] == {"disk": "ssd", "pool": "fast"}
    asked = pod_info_of(found).template
    assert asked.source["nodeSelector"] == {"disk": "ssd", "pool": "fast"}
    assert asked.proxy["nodeSelector"] == PROXY_SELECTOR


def test_an_added_toleration_counts_for_the_targets_nodes_too() -> None:
    found = proxy(tolerations=[{"key": "gpu", "operator": "Exists"}])
    found["spec"]["tolerations"] = [*found["spec"]["tolerations"], {"key": "spot", "operator": "Exists"}]
    wanted = [{"key": "gpu", "operator": "Exists"}, {"key": "spot", "operator": "Exists"}]
    assert delegate(found)["tolerations"] == pod_info_of(found).template.source["tolerations"] == wanted


def test_each_term_of_the_user_is_combined_with_each_added_one() -> None:
    mine = terms(term(is_in("zone", "a")), term(is_in("zone", "b")))
    found = proxy(affinity={"nodeAffinity": mine})
    preferred = [{"weight": 1, "preference": term(is_in("cpu", "new"))}]
    added = terms(term(is_in("pool", "x")), term(is_in("pool", "y")))
    found["spec"]["affinity"] = {"nodeAffinity": added | {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    affinity = delegate(found)["affinity"]["nodeAffinity"]
    assert affinity["preferredDuringSchedulingIgnoredDuringExecution"] == preferred
    assert affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] == [
        term(is_in("zone", zone), is_in("pool", pool)) for zone in "ab" for pool in "xy"
    ]
    assert "requiredDuringSchedulingIgnoredDuringExecution" not in pod_info_of(found).template.proxy["affinity"].get(
        "nodeAffinity", {}
    )


def test_requirements_that_were_added_to_terms_for_virtual_nodes_are_the_delegates_alone() -> None:
    given = terms(term(is_in("region", "eu")))
    text = json.dumps({"affinity": {"nodeAffinity": given}})
    found = proxy({names.SHORT_PREFIX + names.PROXY_CONSTRAINTS: text})
    found["spec"]["affinity"] = {"nodeAffinity": terms(term(is_in("region", "eu"), is_in("pool", "x")))}
    assert delegate(found)["affinity"] == {"nodeAffinity": terms(term(is_in("pool", "x")))}
    required = pod_info_of(found).template.proxy["affinity"]["nodeAffinity"]
    assert (
        required["requiredDuringSchedulingIgnoredDuringExecution"]
        == given["requiredDuringSchedulingIgnoredDuringExecution"]
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kubernetes.io/hostname", "admiralty-ns-eu"),
        (names.SHORT_PREFIX + "target-name", "eu"),
        ("type", "virtual-kubelet"),
    ],
)
def test_what_names_virtual_nodes_chooses_among_them_and_does_not_travel(key: str, value: str) -> None:
    found = proxy()
    found["spec"]["nodeSelector"] |= {key: value}
    found["spec"]["affinity"] = {"nodeAffinity": terms(term(is_in(key, value)))}
    assert not {"nodeSelector", "affinity"} & delegate(found).keys()
    asked = pod_info_of(found).template.proxy
    assert asked["nodeSelector"][key] == value
    assert asked["affinity"] == found["spec"]["affinity"]


def test_additions_choose_the_virtual_node_where_the_users_constraints_do() -> None:
    found = proxy(USE_SPEC, nodeSelector={"region": "eu"})
    found["spec"]["nodeSelector"] |= {"pool": "fast"}
    assert "nodeSelector" not in delegate(found)
    assert pod_info_of(found).template.proxy["nodeSelector"] == {"region": "eu", "pool": "fast", **PROXY_SELECTOR}


def test_an_addition_that_contradicts_the_user_is_reported_as_such() -> None:
    found = proxy(nodeSelector={"pool": "slow"})
    found["spec"]["nodeSelector"] |= {"pool": "fast"}
    for read in (delegate, pod_info_of):
        with pytest.raises(InvalidPod, match=r"spec\.nodeSelector\[pool\].*'fast'.*'slow'"):
            read(found)


def test_more_terms_than_an_affinity_may_have_are_refused() -> None:
    many = [term(is_in("zone", f"{number}")) for number in range(11)]
    found = proxy(affinity={"nodeAffinity": terms(*many)})
    found["spec"]["affinity"] = {"nodeAffinity": terms(*many)}
    with pytest.raises(InvalidPod, match="more than 100"):
        delegate(found)
