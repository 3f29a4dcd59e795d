"""Processes of a cluster: a table of names and command lines. Pure."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from agent.api.ownroles import AGENT as AGENT_ACCOUNT
from hack.lab.sandbox.certificates import FRONT_PROXY
from hack.lab.sandbox.manifests import user
from hack.lab.sandbox.plan import ClusterPlan, Plan
from hack.lab.sandbox.realnode import kubelet, machine

VIRTUAL_KUBELET_PORT = 10300
"""First port of virtual nodes in a cluster with a real node."""

_CLIENT_LIMITS = ["--kube-api-qps=1000", "--kube-api-burst=2000"]
_STALE_CONTROLLERS = ("ReplicaSet", "Job", "StatefulSet", "DaemonSet")
CANDIDATE_SCHEDULER_CONFIG = "candidate-scheduler.json"
"""File in the cluster's directory."""
_ISSUER = "https://kubernetes.default.svc.cluster.local"


AGENT_KUBECONFIG = "pki/agent.kubeconfig"
WEBHOOK_KUBECONFIG = "pki/webhook.kubeconfig"


class Context(msgspec.Struct, frozen=True):
    """Input for a component's command line."""

    plan: Plan
    cluster: ClusterPlan
    directory: Path

    def file(self, name: str) -> str:
        """Return the path of a file below the cluster's directory."""
        return str(self.directory / name)

    def pki(self, name: str) -> str:
        """Return the path of a certificate or key."""
        return str(self.directory / "pki" / name)

    def program(self, name: str) -> str:
        """Return the path of a program of the cluster's Kubernetes version."""
        return self.cluster.programs.get(name) or self.plan.programs[name]

    def port(self, name: str) -> int:
        """Return the port of a process by the port's name."""
        return self.cluster.ports[name]


@dataclass(frozen=True)
class Component:
    """A process. It listens on `ports`; `health` is the name of the port of its plain /readyz, empty without one.

    With `on_node` it uses the file system of the cluster's real node.
    """

    name: str
    arguments: Callable[[Context], list[str]]
    ports: tuple[str, ...] = ()
    module: str = ""
    program: str = ""
    """Name of the program; empty if it is the component's name."""
    health: str = ""
    on_node: bool = False

    def argv(self, context: Context) -> list[str]:
        """Return the whole command line."""
        if self.module:
            return [sys.executable, "-m", self.module, *self.arguments(context)]
        return [context.program(self.program or self.name), *self.arguments(context)]


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
        f"--bind-address={cluster.wildcard}",
        f"--advertise-address={cluster.address}",
        f"--secure-port={context.port('kube-apiserver')}",
        f"--etcd-servers=http://{cluster.private_address}:{context.port('etcd')}",
        f"--service-cluster-ip-range={','.join(cluster.service_ranges)}",
        f"--tls-cert-file={context.pki('kube-apiserver.crt')}",
        f"--tls-private-key-file={context.pki('kube-apiserver.key')}",
        f"--client-ca-file={context.pki('ca.crt')}",
        f"--kubelet-client-certificate={context.pki('kubelet-client.crt')}",
        f"--kubelet-client-key={context.pki('kubelet-client.key')}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--proxy-client-cert-file={context.pki('front-proxy.crt')}",
        f"--proxy-client-key-file={context.pki('front-proxy.key')}",
        f"--requestheader-client-ca-file={context.pki('ca.crt')}",
        f"--requestheader-allowed-names={FRONT_PROXY}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--service-account-key-file={context.pki('sa.pub')}",
        f"--service-account-signing-key-file={context.pki('sa.key')}",
        f"--service-account-issuer={_ISSUER}",
        "--authorization-mode=Node,RBAC",
        "--enable-bootstrap-token-auth=true",
        "--allow-privileged=true",
        "--max-requests-inflight=1000",
        "--max-mutating-requests-inflight=500",
        f"--cert-dir={context.pki('')}",
    ]
    if cluster.nodes.kind == "real":
        arguments.append("--enable-admission-plugins=NodeRestriction")
    if context.plan.audit:
        policy = context.plan.audit_policy or Path(__file__).with_name("audit.yaml")
        arguments.append(f"--audit-policy-file={policy}")
        arguments.append(f"--audit-log-path={context.file('audit.log')}")
    # The API server refuses to publish a loopback address as the endpoint of the service `kubernetes`.
    return arguments if cluster.namespace else [*arguments, "--endpoint-reconciler-type=none"]


def _serving(context: Context) -> list[str]:
    """Return flags for serving with the cluster's certificate: a process would need most of its start to create one."""
    return [
        f"--tls-cert-file={context.pki('kube-apiserver.crt')}",
        f"--tls-private-key-file={context.pki('kube-apiserver.key')}",
    ]


def _controller_manager(context: Context) -> list[str]:
    arguments = [
        f"--kubeconfig={context.pki('kube-controller-manager.kubeconfig')}",
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        f"--bind-address={context.cluster.private_address}",
        f"--secure-port={context.port('kube-controller-manager')}",
        *_serving(context),
        f"--root-ca-file={context.pki('ca.crt')}",
        f"--service-account-private-key-file={context.pki('sa.key')}",
        f"--cluster-signing-cert-file={context.pki('ca.crt')}",
        f"--cluster-signing-key-file={context.pki('ca.key')}",
        "--horizontal-pod-autoscaler-sync-period=5s",
        *_CLIENT_LIMITS,
    ]
    if not context.plan.real_nodes:
        # This controller checks ten times a second for volumes to attach; fake nodes have none.
        arguments.append("--controllers=*,-persistentvolume-attach-detach-controller")
    if (context.cluster.kubernetes or context.plan.kubernetes) == "1.36":
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
        *_serving(context),
        *_CLIENT_LIMITS,
    ]


def _candidate_scheduler(context: Context) -> list[str]:
    return [
        f"--config={context.file(CANDIDATE_SCHEDULER_CONFIG)}",
        f"--bind-address={context.cluster.private_address}",
        f"--secure-port={context.port('candidate-scheduler')}",
        *_serving(context),
    ]


def _kwok(context: Context) -> list[str]:
    return [
        f"--kubeconfig={context.pki('kwok.kubeconfig')}",
        f"--config={Path(__file__).with_name('stages.yaml')}",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        "--node-lease-duration-seconds=100",
        f"--node-ip={context.cluster.address}",
        f"--cidr={context.cluster.fake_pod_ranges[0]}",
    ]


def _node(context: Context) -> list[str]:
    return machine.arguments(context.plan.programs, context.directory / "node", context.cluster.pod_ranges)


def _containerd(context: Context) -> list[str]:
    return [f"--config={context.file('node/containerd.toml')}"]


def _kubelet(context: Context) -> list[str]:
    return kubelet.arguments(context.cluster, context.directory / "pki", context.directory / "node" / "kubelet.json")


def _kube_proxy(context: Context) -> list[str]:
    return kubelet.proxy_arguments(context.cluster, context.directory / "pki")


def _webhook(context: Context) -> list[str]:
    cluster = context.cluster
    return [
        f"--kubeconfig={context.file(WEBHOOK_KUBECONFIG)}",
        f"--bind={cluster.listen('webhook')}",
        f"--url=https://{cluster.at('webhook')}",
        f"--health-address={cluster.listen('webhook-health')}",
        f"--agent-user={user(AGENT_ACCOUNT.name)}",
        "--register",
        *context.plan.webhook_flags,
    ]


def _agent(context: Context, health: str = "agent-health") -> list[str]:
    candidates = ["--no-candidate-scheduler"]
    if context.plan.candidate_scheduler:
        candidates = [f"--extender-address={context.cluster.extender}"]
    return [
        f"--kubeconfig={context.file(AGENT_KUBECONFIG)}",
        f"--cluster-name={context.cluster.name}",
        "--namespace=kube-system",
        f"--health-address={context.cluster.listen(health)}",
        f"--node-address={context.cluster.address}",
        *candidates,
        *(_with_containers(context) if context.cluster.nodes.kind == "real" else []),
        *context.plan.agent_flags,
    ]


def _second_agent(context: Context) -> list[str]:
    """Return the arguments of the second agent. Its virtual nodes use other ports while the first agent has theirs."""
    return _agent(context, "agent-2-health")


def _with_containers(context: Context) -> list[str]:
    """Return flags for a cluster with a real node, whose kubelet uses the default port of virtual nodes."""
    return [f"--kubelet-port={VIRTUAL_KUBELET_PORT}", f"--source-api={context.cluster.at('kube-apiserver')}"]


ETCD = Component("etcd", _etcd, ports=("etcd", "etcd-peer"))
APISERVER = Component("kube-apiserver", _apiserver, ports=("kube-apiserver",))
CONTROLLER_MANAGER = Component("kube-controller-manager", _controller_manager, ports=("kube-controller-manager",))
SCHEDULER = Component("kube-scheduler", _scheduler, ports=("kube-scheduler",))
KWOK = Component("kwok", _kwok)
NODE = Component("node", _node, program="unshare")
CONTAINERD = Component("containerd", _containerd, on_node=True)
KUBELET = Component("kubelet", _kubelet, ports=("kubelet", "kubelet-health"), on_node=True)
KUBE_PROXY = Component("kube-proxy", _kube_proxy, ports=("kube-proxy-health",), on_node=True)
WEBHOOK = Component("webhook", _webhook, ports=("webhook", "webhook-health"), module="webhook", health="webhook-health")
AGENT = Component("agent", _agent, ports=("agent-health",), module="agent", health="agent-health")
SECOND_AGENT = Component("agent-2", _second_agent, ports=("agent-2-health",), module="agent", health="agent-2-health")
CANDIDATE_SCHEDULER = Component(
    "candidate-scheduler", _candidate_scheduler, ports=("candidate-scheduler",), program="kube-scheduler"
)

_CONTROL_PLANE = (ETCD, APISERVER, CONTROLLER_MANAGER, SCHEDULER)
_REAL_NODE = (NODE, CONTAINERD, KUBELET, KUBE_PROXY)
PROGRAMS = (*(component.name for component in _CONTROL_PLANE), "kwok", "kubectl")
"""Programs that a sandbox needs."""
CONTROL_PLANE = (APISERVER.name, CONTROLLER_MANAGER.name, SCHEDULER.name)
"""Programs whose version is the cluster's Kubernetes version."""
NODE_PROGRAMS = (KUBELET.name, KUBE_PROXY.name)
"""Programs of Kubernetes that only a real node needs."""
REAL_PROGRAMS = (*(component.name for component in _CONTROL_PLANE), "kubectl", *NODE_PROGRAMS)
"""Programs that a sandbox with real nodes needs, without those of the machine (`realnode.host`)."""


def components(plan: Plan) -> Mapping[str, Component]:
    """Return the processes of each cluster by name, in the order in which they start."""
    table = (*_CONTROL_PLANE, *node_components(plan))
    table += (WEBHOOK, AGENT) if plan.agents else ()
    if plan.agents and plan.replicas > 1:
        table += (SECOND_AGENT,)
    if plan.candidate_scheduler:
        table += (CANDIDATE_SCHEDULER,)
    return {component.name: component for component in table}


def node_components(plan: Plan) -> tuple[Component, ...]:
    """Return the processes of each cluster's nodes, real or fake, in the order in which they start."""
    return (*(_REAL_NODE if plan.real_nodes else ()), *((KWOK,) if plan.fake_nodes else ()))
