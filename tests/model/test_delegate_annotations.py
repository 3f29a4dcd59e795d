import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.api.labels import ANNOTATIONS_NOT_HOME, ANNOTATIONS_WITH_ADDRESSES, is_among, is_key
from agent.model.delegate_annotations import USUAL, Homecoming
from tests.examples import examples


@pytest.mark.parametrize(
    "key",
    [
        "prometheus.io/port",
        "kubectl.kubernetes.io/default-container",
        "sidecar.istio.io/status",
        "ambient.istio.io/redirection",
        "post.hook.backup.velero.io/command",
        "kustomize.toolkit.fluxcd.io/prune",
        "argocd.argoproj.io/tracking-id",
        "controller.kubernetes.io/pod-deletion-cost",
        "kubernetes.io/config.mirror",
        "consul.hashicorp.com/service-port",
        "kuma.io/sidecar-injection",
        "traffic.kuma.io/exclude-inbound-ports",
        "dns.alpha.kubernetes.io/external",
        "ad.datadoghq.com/web.checks",
        "agent.signalfx.com/config.80.host",
    ],
)
def test_what_others_act_upon_stays_away(key: str) -> None:
    assert not USUAL.lets(key)


@pytest.mark.parametrize(
    "key",
    [
        "cni",
        "k8s.v1.cni.cncf.io/network-status",
        "cni.projectcalico.org/podIP",
        "workflows.argoproj.io/outputs",
        "notprometheus.io/port",
        "prometheus.io.example/port",
        "kubernetes.io/limit-ranger",
    ],
)
def test_what_they_do_not_comes_home(key: str) -> None:
    assert USUAL.lets(key)


def test_of_a_target_with_ranges_no_address_comes_as_an_annotation() -> None:
    kept = USUAL.without_addresses()
    assert not kept.lets("cni.projectcalico.org/podIP")
    assert not kept.lets("k8s.v1.cni.cncf.io/network-status")
    assert not kept.lets("prometheus.io/port")
    assert kept.lets("cni.projectcalico.org/containerID")


@pytest.mark.parametrize(
    "key",
    [
        "vpc.amazonaws.com/pod-ips",
        "vpc.amazonaws.com/pod-eni",
        "k8s.v1.cni.cncf.io/networks-status",
        "k8s.aliyun.com/pod-ips",
        "tke.cloud.tencent.com/networks-status",
        "networking.gke.io/pod-ips",
        "networking.alibaba.com/ip",
        "openstack.org/kuryr-vif",
        "ipam.antrea.io/pod-ips",
        "net1.default.ovn.kubernetes.io/ip_address",
        "submariner.io/globalIp",
    ],
)
def test_addresses_that_networks_write_stay_in_a_target_with_ranges(key: str) -> None:
    assert USUAL.lets(key)
    assert not USUAL.without_addresses().lets(key)


@pytest.mark.parametrize("named", ["vpc.amazonaws.com/pod-ips", "vpc.amazonaws.com", "amazonaws.com"])
def test_a_list_of_annotations_does_not_let_addresses_out_of_a_target_with_ranges(named: str) -> None:
    chosen = Homecoming(frozenset((named, "example.org")))
    assert chosen.lets("vpc.amazonaws.com/pod-ips")
    assert not chosen.without_addresses().lets("vpc.amazonaws.com/pod-ips")
    assert chosen.without_addresses().lets("example.org/note")
    assert not chosen.without_addresses().lets("other.org/note")


def test_where_an_installation_names_some_only_these_come_home() -> None:
    chosen = Homecoming(frozenset(("prometheus.io/port", "argoproj.io")))
    assert chosen.lets("prometheus.io/port")
    assert chosen.lets("workflows.argoproj.io/outputs")
    assert not chosen.lets("prometheus.io/path")
    assert not chosen.lets("cni")


def test_every_entry_is_a_key_or_a_domain_and_says_who_acts_upon_it() -> None:
    every = {**ANNOTATIONS_NOT_HOME, **ANNOTATIONS_WITH_ADDRESSES}
    assert all(is_key(entry) and reason for entry, reason in every.items())
    assert not ANNOTATIONS_NOT_HOME.keys() & ANNOTATIONS_WITH_ADDRESSES.keys()


@settings(max_examples=examples(500))
@given(st.text(max_size=30), st.lists(st.text(max_size=10), max_size=3))
def test_there_is_a_verdict_about_any_key(key: str, among: list[str]) -> None:
    assert is_among(key, [*among, key])
    assert isinstance(USUAL.lets(key), bool)
