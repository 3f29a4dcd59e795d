"""Command lines of the processes."""

import dataclasses
import sys
from pathlib import Path

from hack.lab.sandbox.components import PROGRAMS, REAL_PROGRAMS, Context, components
from hack.lab.sandbox.manifests import scheduler_configuration
from hack.lab.sandbox.plan import ClusterPlan, NodeShape, Plan
from hack.lab.sandbox.realnode import containerd
from hack.lab.sandbox.realnode.host import PACKAGES

SEPARATE = ClusterPlan("us", 1, "10.130.1.11", "us", NodeShape(), "flotilla-abcdef-us")
SHARED = dataclasses.replace(SEPARATE, address="127.70.1.2", namespace="", ports={**SEPARATE.ports, "etcd": 12379})
PLAN = Plan("/d", "abcdef", "1.36", {name: f"/bin/{name}" for name in PROGRAMS}, (SEPARATE,), agent_flags=("--x=1",))


def argv(name: str, cluster: ClusterPlan = SEPARATE, plan: Plan = PLAN) -> list[str]:
    return components(plan)[name].argv(Context(plan, cluster, Path("/d/us")))


def test_agents_are_left_out_when_not_wanted() -> None:
    control_plane = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"]
    assert list(components(dataclasses.replace(PLAN, agents=False))) == control_plane
    assert list(components(PLAN)) == [*control_plane, "webhook", "agent"]


def test_a_second_agent_differs_from_the_first_only_in_where_it_tells_its_health() -> None:
    plan = dataclasses.replace(PLAN, replicas=2)
    assert list(components(plan))[-2:] == ["agent", "agent-2"]
    first, second = set(argv("agent", plan=plan)), set(argv("agent-2", plan=plan))
    assert first ^ second == {"--health-address=10.130.1.11:8081", "--health-address=10.130.1.11:8083"}


def test_audit_logs_follow_the_policy_that_is_given() -> None:
    def policies(plan: Plan) -> list[str]:
        return [flag for flag in argv("kube-apiserver", plan=plan) if flag.startswith("--audit-policy-file=")]

    assert policies(PLAN) == []
    (own,) = policies(dataclasses.replace(PLAN, audit=True))
    assert own.endswith("/hack/lab/sandbox/audit.yaml")
    given = dataclasses.replace(PLAN, audit=True, audit_policy="/p/other.yaml")
    assert policies(given) == ["--audit-policy-file=/p/other.yaml"]


def test_a_candidate_scheduler_is_run_only_when_wanted_and_then_the_agent_serves_it() -> None:
    plan = dataclasses.replace(PLAN, candidate_scheduler=True)
    assert "candidate-scheduler" not in components(PLAN)
    assert not any(flag.startswith("--extender") for flag in argv("agent"))
    assert argv("candidate-scheduler", plan=plan)[:2] == [
        "/bin/kube-scheduler",
        "--config=/d/us/candidate-scheduler.json",
    ]
    assert "--extender-address=127.0.0.1:10261" in argv("agent", plan=plan)
    assert "--extender-address=127.70.1.2:10261" in argv("agent", SHARED, plan)
    configuration = scheduler_configuration("/k", "http://127.0.0.1:10261")
    (extender,) = configuration["extenders"]
    assert (extender["bindVerb"], extender["ignorable"]) == ("bind", False)
    assert not {"filterVerb", "prioritizeVerb", "preemptVerb", "managedResources"} & extender.keys()


def test_real_nodes_take_the_place_of_fake_ones_and_keep_their_kubelets_port() -> None:
    cluster = dataclasses.replace(SEPARATE, nodes=NodeShape(1, kind="real"))
    programs = {name: f"/bin/{name}" for name in (*REAL_PROGRAMS, *PACKAGES)}
    plan = dataclasses.replace(PLAN, clusters=(cluster,), programs=programs)
    names = list(components(plan))
    assert names[4:] == ["node", "containerd", "kubelet", "kube-proxy", "webhook", "agent"]
    assert all(argv(name, cluster, plan) for name in names)
    assert "--kubelet-port=10300" in argv("agent", cluster, plan)
    assert "--enable-admission-plugins=NodeRestriction" in argv("kube-apiserver", cluster, plan)
    assert not any("kubelet-port" in flag for flag in argv("agent"))


def test_fake_nodes_beside_a_real_one_have_addresses_of_their_own_and_leave_it_to_who_tolerates_it() -> None:
    cluster = dataclasses.replace(SEPARATE, nodes=NodeShape(1, kind="real", fakes=3))
    programs = {name: f"/bin/{name}" for name in (*REAL_PROGRAMS, *PACKAGES, "kwok")}
    plan = dataclasses.replace(PLAN, clusters=(cluster,), programs=programs)
    assert list(components(plan))[4:9] == ["node", "containerd", "kubelet", "kube-proxy", "kwok"]
    assert "--cidr=10.225.128.0/17" in argv("kwok", cluster, plan)
    assert "10.225.0.0/17" in containerd.network(cluster.real_pod_ranges)
    assert {"--hostname-override=us-real-0", "--register-with-taints=type=real:NoSchedule"} < {
        *argv("kubelet", cluster, plan)
    }
    alone = dataclasses.replace(cluster, nodes=NodeShape(1, kind="real"))
    assert not any("taint" in flag for flag in argv("kubelet", alone, plan))


def test_a_dual_stack_cluster_names_both_networks_and_both_addresses() -> None:
    nodes = NodeShape(1, kind="real", fakes=1)
    cluster = dataclasses.replace(SEPARATE, nodes=nodes, family="dual", second_address="fd66:6c75::b")
    programs = {name: f"/bin/{name}" for name in (*REAL_PROGRAMS, *PACKAGES, "kwok")}
    plan = dataclasses.replace(PLAN, clusters=(cluster,), programs=programs)
    wanted = {
        "kube-apiserver": ("--service-cluster-ip-range=10.97.0.0/16,fd66:6c74:60:1::/112", "--bind-address=::"),
        "kubelet": ("--node-ip=10.130.1.11,fd66:6c75::b",),
        "kube-proxy": ("--cluster-cidr=10.225.0.0/16,fd66:6c74:e0:1::/64",),
        "webhook": ("--bind=:9443", "--url=https://10.130.1.11:9443"),
        "agent": ("--health-address=:8081", "--node-address=10.130.1.11", "--source-api=10.130.1.11:6443"),
    }
    for name, flags in wanted.items():
        assert {*flags} <= {*argv(name, cluster, plan)}


def test_every_cluster_has_a_service_network_of_its_own() -> None:
    assert "--service-cluster-ip-range=10.97.0.0/16" in argv("kube-apiserver")


def test_with_an_address_of_its_own_only_the_api_server_is_reachable_from_outside() -> None:
    assert "--listen-client-urls=http://127.0.0.1:2379" in argv("etcd")
    assert "--bind-address=10.130.1.11" in argv("kube-apiserver")
    assert "--bind-address=127.0.0.1" in argv("kube-scheduler")


def test_on_loopback_every_process_uses_the_clusters_address_and_ports() -> None:
    assert "--listen-client-urls=http://127.70.1.2:12379" in argv("etcd", SHARED)
    assert "--etcd-servers=http://127.70.1.2:12379" in argv("kube-apiserver", SHARED)
    assert "--bind-address=127.70.1.2" in argv("kube-scheduler", SHARED)


def test_feature_gates_of_one_release_are_not_given_to_another() -> None:
    older = dataclasses.replace(PLAN, kubernetes="1.30")
    assert any("StaleControllerConsistencyJob=false" in flag for flag in argv("kube-controller-manager"))
    assert not any("feature-gates" in flag for flag in argv("kube-controller-manager", plan=older))


def test_our_processes_run_with_this_python_and_take_extra_flags() -> None:
    assert argv("agent")[:3] == [sys.executable, "-m", "agent"]
    assert argv("agent")[-1] == "--x=1"
    assert "--url=https://10.130.1.11:9443" in argv("webhook")


def test_what_listens_on_the_clusters_address_has_ports_of_its_own() -> None:
    plan = dataclasses.replace(PLAN, candidate_scheduler=True)
    ports = [SEPARATE.ports[port] for component in components(plan).values() for port in component.ports]
    assert len(ports) == len(set(ports))
