"""Syntax of label keys, label values and names, and keys that have a meaning for other software."""

import re
from collections.abc import Collection

_PART = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_DOMAIN_LIMIT = 253

HOSTNAME = "kubernetes.io/hostname"
"""Label with the name of a node. The scheduler treats a target with one node as a host of its own."""
LABELS_NOT_TAKEN = frozenset(
    (
        # Reserved for administrators who isolate workloads: kubelets cannot set them either (NodeRestriction).
        "node-restriction.kubernetes.io",
        # Nodes with these labels are excluded from load balancers, or get the pods of a control plane.
        "node-role.kubernetes.io",
        # Each node with this label is a domain of its own, in which no local pod can run.
        HOSTNAME,
    )
)
"""Keys and domains of labels that are not copied from a target to its virtual node."""

ANNOTATIONS_NOT_HOME = {
    "prometheus.io": "Prometheus scrapes the port, path and parameters that they name",
    "k8s.grafana.com": "Grafana's collectors do the same",
    "co.elastic.logs": "Beats and Elastic Agent read hints of what to collect, and how",
    "co.elastic.metrics": "the same",
    "co.elastic.monitor": "the same, with the hosts to be monitored",
    "ad.datadoghq.com": "the Datadog Agent runs the checks that they configure, against hosts that they name",
    "signalfx.com": "the SignalFx agent does the same",
    "external-dns.alpha.kubernetes.io": "ExternalDNS publishes the names and addresses that they say",
    "dns.alpha.kubernetes.io": "dns-controller of kOps does the same",
    "kubectl.kubernetes.io": "kubectl apply takes from them what to delete, kubectl exec which container is meant",
    "meta.helm.sh": "Helm adopts what names a release",
    "argocd.argoproj.io": "Argo CD prunes what carries the tracking ID of an application",
    "toolkit.fluxcd.io": "Flux prunes, or leaves alone, what they say",
    "cluster-autoscaler.kubernetes.io": "they say whether a node may be drained",
    "karpenter.sh": "the same",
    "descheduler.alpha.kubernetes.io": "they say whether a pod may be evicted",
    "controller.kubernetes.io": "ReplicaSets delete the pod of the lowest pod-deletion-cost",
    "batch.kubernetes.io": "Jobs count completions by job-completion-index",
    "kueue.x-k8s.io": "Kueue counts the pods of a group by them",
    "velero.io": "Velero runs the commands of hooks, and backs up the volumes that they name",
    "istio.io": "Istio configures proxies, and takes pods into the mesh or out of it",
    "linkerd.io": "Linkerd does the same",
    "kuma.io": "Kuma does the same",
    "consul.hashicorp.com": "Consul registers the pod as a service of the name, port and metadata that they say",
    "iam.amazonaws.com": "kiam and kube2iam give the pod's address the role that is named",
    "kubernetes.io/config.mirror": "kubectl drain and others leave mirror pods alone; API servers refuse the change",
    "kubernetes.io/config.source": "the same",
    "kubernetes.io/config.hash": "the same",
    "kubernetes.io/config.seen": "the same",
    "scheduler.alpha.kubernetes.io": "API servers check their form, and refuse a status that comes with a wrong one",
    "seccomp.security.alpha.kubernetes.io": "the same",
    "container.apparmor.security.beta.kubernetes.io": "API servers refuse to change them",
}
"""Keys and domains of annotations that are not copied from delegates to proxy pods, and the software that uses them."""

ANNOTATIONS_OF_CLIENTS = {
    "kubectl.kubernetes.io/last-applied-configuration": "kubectl apply compares with it; it is as large as the object",
    "objectset.rio.cattle.io": "Rancher and k3s do the same",
    "kapp.k14s.io": "kapp does the same",
    "banzaicloud.com/last-applied": "operators of the Banzai Cloud libraries do the same",
    "kopf.zalando.org": "operators of the Kopf library keep their progress in it, and the object they saw last",
    "meta.helm.sh": "Helm adopts what names a release",
    "argocd.argoproj.io": "Argo CD prunes what carries the tracking ID of an application",
    "toolkit.fluxcd.io": "Flux prunes, or leaves alone, what they say",
}
"""Keys and domains of annotations that clients write for their own use in one cluster: copies and delegates
have none.
"""

ANNOTATIONS_WITH_ADDRESSES = {
    "cni.projectcalico.org/podIP": "Calico takes a pod's address from it before status.podIP is set",
    "cni.projectcalico.org/podIPs": "the same",
    "vpc.amazonaws.com": "the same, on EKS; the AWS network policy controller, if status.podIP is empty",
    "k8s.aliyun.com/pod-ips": "Terway's Calico takes a pod's address from it",
    "k8s.ovn.org": "OVN-Kubernetes takes networks and addresses of pods from them",
    "ovn.kubernetes.io": "Kube-OVN does the same",
    "networking.alibaba.com": "Hybridnet does the same",
    "ipam.antrea.io/pod-ips": "Antrea reserves these addresses for the pod",
    "openstack.org/kuryr-vif": "Kuryr takes the pod's port and address from it",
    "k8s.v1.cni.cncf.io/network-status": "Multus writes all addresses of a pod; network policy controllers read them",
    "k8s.v1.cni.cncf.io/networks-status": "the same, under its older name",
    "tke.cloud.tencent.com/networks-status": "the same, on TKE",
    "networking.gke.io/pod-ips": "the same, on GKE with several networks",
    "submariner.io": "older releases of Submariner translate the global address that they say to the pod",
}
"""Keys and domains of annotations from which network plugins take a pod's addresses, with the plugin.

They are withheld if `spec.podCIDRs` of a Target restricts the addresses of its pods.
"""


def is_key(text: str) -> bool:
    """Return whether a text is a label key: a name of at most 63 characters, with an optional DNS subdomain as
    prefix.
    """
    domain, slash, name = text.rpartition("/")
    if slash and (len(domain) > _DOMAIN_LIMIT or not _DOMAIN.fullmatch(domain)):
        return False
    return bool(_PART.fullmatch(name))


def is_name(text: str) -> bool:
    """Return whether a text is a valid name of most kinds: a DNS subdomain."""
    return len(text) <= _DOMAIN_LIMIT and bool(_DOMAIN.fullmatch(text))


def is_value(text: str) -> bool:
    """Return whether a text is a label value: empty, or at most 63 characters that begin and end alphanumerically."""
    return not text or bool(_PART.fullmatch(text))


def is_among(key: str, among: Collection[str]) -> bool:
    """Return whether a collection contains a key, the domain of its prefix, or a parent of that domain."""
    if key in among:
        return True
    domain = key.partition("/")[0] if "/" in key else ""
    while domain:
        if domain in among:
            return True
        domain = domain.partition(".")[2]
    return False


def is_of_client(key: str) -> bool:
    """Return True for an annotation that a client of one cluster has written for itself."""
    return is_among(key, ANNOTATIONS_OF_CLIENTS)
