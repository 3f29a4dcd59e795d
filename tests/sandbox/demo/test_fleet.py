from hack.lab.demo.fleet import assemble, spread
from hack.lab.demo.manifests import DEPLOYMENT
from tests.sandbox.demo import moments


def test_a_proxy_pod_is_put_together_with_its_delegate_and_the_region_of_its_node() -> None:
    first, second = assemble(moments.running()).of(DEPLOYMENT)
    assert (first.name, first.node) == ("web-0", "admiralty-default-us")
    assert [(d.cluster, d.node, d.region) for d in first.delegates] == [("us", "us-node-0", "us")]
    assert [(d.cluster, d.region) for d in second.delegates] == [("eu", "eu")]


def test_a_delegate_in_the_source_itself_is_found_too() -> None:
    readings = moments.running()
    readings.pods["cd"].append(moments.delegate(DEPLOYMENT, 0, "cd", "Running"))
    assert [d.cluster for d in assemble(readings).of(DEPLOYMENT)[0].delegates] == ["cd", "us"]


def test_why_a_pod_waits_is_told_until_it_has_a_node() -> None:
    readings = moments.running()
    condition = {"type": "PodScheduled", "status": "False", "message": "0/2 targets are available"}
    readings.pods["cd"][0]["status"]["conditions"].append(condition)
    assert assemble(readings).proxies[0].why == "0/2 targets are available"
    condition["status"] = "True"
    assert assemble(readings).proxies[0].why == ""


def test_spread_counts_in_alphabetical_order() -> None:
    assert spread(["us", "eu", "us"]) == "eu 1, us 2"
