"""The processes of a cluster: one table of names and command lines. Pure."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.sandbox.plan import SERVICE_RANGE, ClusterPlan, Plan

_CLIENT_LIMITS = ["--kube-api-qps=1000", "--kube-api-burst=2000"]
_STALE_CONTROLLERS = ("ReplicaSet", "Job", "StatefulSet", "DaemonSet")
CANDIDATE_SCHEDULER_CONFIG = "candidate-scheduler.json"
"""In the cluster's directory."""
_ISSUER = "https://kubernetes.default.svc.cluster.local"


AGENT_KUBECONFIG = "pki/agent.kubeconfig"


@dataclass(frozen=True)
class Context:
    """Everything a command line is made of."""

    plan: Plan
    cluster: ClusterPlan
    directory: Path

    def file(self, name: str) -> str:
        """Path of a file below the cluster's directory."""
        return str(self.directory / name)

    def pki(self, name: str) -> str:
        """Path of a certificate or key."""
        return str(self.directory / "pki" / name)

    def port(self, name: str) -> int:
        """Port of something that listens."""
        return self.cluster.ports[name]


@dataclass(frozen=True)
class Component:
    """One process: `ports` are those it listens on, `health` names the port of its plain /readyz, if it has one."""

    name: str
    arguments: Callable[[Context], list[str]]
    ports: tuple[str, ...] = ()
    module: str = ""
    program: str = ""
    """Where it is not called as the component is."""
    health: str = ""

    def argv(self, context: Context) -> list[str]:
        """The whole command line."""
        if self.module:
            return [sys.executable, "-m", self.module, *self.arguments(context)]
        return [context.plan.programs[self.program or self.name], *self.arguments(context)]


def _etcd(context: Context) -> list[str]:
    address = context.cluster.private_address
    client, peer = (f"http://{address}:{context.port(name)}" for name in ("etcd", "etcd-peer"))
    return [
        f"--name={context.cluster.name}",
        f"--data-dir={context.file('etcd')}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster={context.cluster.name}={peer}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def _apiserver(context: Context) -> list[str]:
    cluster = context.cluster
    arguments = [
        f"--bind-address={cluster.address}",
        f"--advertise-address={cluster.address}",
        f"--secure-port={context.port('kube-apiserver')}",
        f"--etcd-servers=http://{cluster.private_address}:{context.port('etcd')}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        f"--tls-cert-file={context.pki('kube-apiserver.crt')}",
        f"--tls-private-key-file={context.pki('kube-apiserver.key')}",
        f"--client-ca-file={context.pki('ca.crt')}",
        f"--kubelet-client-certificate={context.pki('kubelet-client.crt')}",
        f"--kubelet-client-key={context.pki('kubelet-client.key')}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--service-account-key-file={context.pki('sa.pub')}",
        f"--service-account-signing-key-file={context.pki('sa.key')}",
        f"--service-account-issuer={_ISSUER}",
        "--authorization-mode=Node,RBAC",
        "--allow-privileged=true",
        "--max-requests-inflight=1000",
        "--max-mutating-requests-inflight=500",
        f"--cert-dir={context.pki('')}",
    ]
    # The API server refuses to publish a loopback address as the endpoint of the service `kubernetes`.
    return arguments if cluster.namespace else [*arguments, "--endpoint-reconciler-type=none"]


def _controller_manager(context: Context) -> list[str]:
    arguments = [
        f"--kubeconfig={context.pki('kube-controller-manager.kubeconfig')}",
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        f"--bind-address={context.cluster.private_address}",
        f"--secure-port={context.port('kube-controller-manager')}",
        f"--cert-dir={context.pki('')}",
        f"--root-ca-file={context.pki('ca.crt')}",
        f"--service-account-private-key-file={context.pki('sa.key')}",
        f"--cluster-signing-cert-file={context.pki('ca.crt')}",
        f"--cluster-signing-key-file={context.pki('ca.key')}",
        *_CLIENT_LIMITS,
    ]
    if context.plan.kubernetes == "1.36":
        # With fast pod churn these controllers of 1.36 can stall for a long time, each waiting for its own write.
        gates = ",".join(f"StaleControllerConsistency{kind}=false" for kind in _STALE_CONTROLLERS)
        arguments.append(f"--feature-gates={gates}")
    return arguments


def _scheduler(context: Context) -> list[str]:
    return [
        f"--kubeconfig={context.pki('kube-scheduler.kubeconfig')}",
        "--leader-elect=false",
        f"--bind-address={context.cluster.private_address}",
        f"--secure-port={context.port('kube-scheduler')}",
        f"--cert-dir={context.pki('')}",
        *_CLIENT_LIMITS,
    ]


def _candidate_scheduler(context: Context) -> list[str]:
    return [
        f"--config={context.file(CANDIDATE_SCHEDULER_CONFIG)}",
        f"--bind-address={context.cluster.private_address}",
        f"--secure-port={context.port('candidate-scheduler')}",
        f"--cert-dir={context.pki('')}",
    ]


def _kwok(context: Context) -> list[str]:
    return [
        f"--kubeconfig={context.pki('kwok.kubeconfig')}",
        f"--config={Path(__file__).with_name('stages.yaml')}",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        "--node-lease-duration-seconds=40",
        f"--node-ip={context.cluster.address}",
        f"--cidr={context.cluster.pod_range}",
    ]


def _webhook(context: Context) -> list[str]:
    address = context.cluster.address
    return [
        f"--kubeconfig={context.file(AGENT_KUBECONFIG)}",
        f"--bind={address}:{context.port('webhook')}",
        f"--url=https://{address}:{context.port('webhook')}",
        f"--health-address={address}:{context.port('webhook-health')}",
        "--register",
        *context.plan.webhook_flags,
    ]


def _agent(context: Context) -> list[str]:
    address = context.cluster.address
    extender = [f"--extender-address={extender_address(context.cluster)}"] if context.plan.candidate_scheduler else []
    return [
        f"--kubeconfig={context.file(AGENT_KUBECONFIG)}",
        f"--cluster-name={context.cluster.name}",
        "--namespace=kube-system",
        f"--health-address={address}:{context.port('agent-health')}",
        f"--node-address={address}",
        *extender,
        *context.plan.agent_flags,
    ]


def extender_address(cluster: ClusterPlan) -> str:
    """HOST:PORT where a cluster's agent serves its candidate scheduler."""
    return f"{cluster.private_address}:{cluster.ports['extender']}"


ETCD = Component("etcd", _etcd, ports=("etcd", "etcd-peer"))
APISERVER = Component("kube-apiserver", _apiserver, ports=("kube-apiserver",))
CONTROLLER_MANAGER = Component("kube-controller-manager", _controller_manager, ports=("kube-controller-manager",))
SCHEDULER = Component("kube-scheduler", _scheduler, ports=("kube-scheduler",))
KWOK = Component("kwok", _kwok)
WEBHOOK = Component("webhook", _webhook, ports=("webhook", "webhook-health"), module="webhook", health="webhook-health")
AGENT = Component("agent", _agent, ports=("agent-health",), module="agent", health="agent-health")
CANDIDATE_SCHEDULER = Component(
    "candidate-scheduler", _candidate_scheduler, ports=("candidate-scheduler",), program="kube-scheduler"
)

_CONTROL_PLANE = (ETCD, APISERVER, CONTROLLER_MANAGER, SCHEDULER, KWOK)
PROGRAMS = (*(component.name for component in _CONTROL_PLANE), "kubectl")
"""Programs a sandbox needs."""


def components(plan: Plan) -> Mapping[str, Component]:
    """The processes of each cluster by name, in the order in which they start."""
    table = (*_CONTROL_PLANE, WEBHOOK, AGENT) if plan.agents else _CONTROL_PLANE
    if plan.candidate_scheduler:
        table = (*table, CANDIDATE_SCHEDULER)
    return {component.name: component for component in table}
