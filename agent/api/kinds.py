"""Kinds that Flotilla uses, and their API paths."""

from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import quote

from agent.api.names import GROUP, VERSION
from agent.api.names.ac3 import AC3_GROUP
from agent.api.names.hub import ADDON_GROUP, REGISTER_GROUP
from agent.api.names.links import OWN_GROUP
from agent.api.names.ocm import OCM_GROUP, WORK_GROUP
from agent.api.names.p2code import P2CODE_GROUP


@dataclass(frozen=True, slots=True)
class Kind:
    """A resource of an API server."""

    group: str
    version: str
    plural: str
    name: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """`v1` or `group/version`, as in manifests."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, sub: str | None = None) -> str:
        """Return the URL path of a collection, an object or a subresource; without namespace, that of all
        namespaces.
        """
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", _segment(namespace)]
        parts.append(self.plural)
        if name:
            parts.append(_segment(name))
        if sub:
            parts.append(sub)
        return "/".join(parts)

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


class Kinds(NamedTuple):
    """A namespaced kind and its cluster-scoped twin."""

    namespaced: Kind
    cluster: Kind

    def of(self, namespace: str | None) -> Kind:
        """Return the kind of an object in this namespace, or (None or empty) the cluster-scoped one."""
        return self.namespaced if namespace else self.cluster


def _segment(name: str) -> str:
    """Return a name as a path segment. Names have no slash, but a user may write anything into a reference."""
    return quote(name, safe=":")


PODS = Kind("", "v1", "pods", "Pod")
NODES = Kind("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES = Kind("", "v1", "namespaces", "Namespace", namespaced=False)
SECRETS = Kind("", "v1", "secrets", "Secret")
CONFIGMAPS = Kind("", "v1", "configmaps", "ConfigMap")
SERVICES = Kind("", "v1", "services", "Service")
PERSISTENT_VOLUME_CLAIMS = Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
PERSISTENT_VOLUMES = Kind("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
SERVICE_ACCOUNTS = Kind("", "v1", "serviceaccounts", "ServiceAccount")
RESOURCE_QUOTAS = Kind("", "v1", "resourcequotas", "ResourceQuota")
NETWORK_POLICIES = Kind("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
INGRESSES = Kind("networking.k8s.io", "v1", "ingresses", "Ingress")
ENDPOINT_SLICES = Kind("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
SERVICE_EXPORTS = Kind("multicluster.x-k8s.io", "v1alpha1", "serviceexports", "ServiceExport")
SERVICE_IMPORTS = Kind("multicluster.x-k8s.io", "v1alpha1", "serviceimports", "ServiceImport")
"""Kind of SIG Multicluster (KEP-1645), served only by clusters with an implementation."""
SITES = Kind("skupper.io", "v2alpha1", "sites", "Site")
"""Kind of Skupper v2, as are the next ones."""
LISTENERS = Kind("skupper.io", "v2alpha1", "listeners", "Listener")
CONNECTORS = Kind("skupper.io", "v2alpha1", "connectors", "Connector")
SKUPPER_GRANTS = Kind("skupper.io", "v2alpha1", "accessgrants", "AccessGrant")
SKUPPER_TOKENS = Kind("skupper.io", "v2alpha1", "accesstokens", "AccessToken")
SKUPPER_LINKS = Kind("skupper.io", "v2alpha1", "links", "Link")
LINKERD_LINKS = Kind("multicluster.linkerd.io", "v1alpha3", "links", "Link")
EVENTS = Kind("", "v1", "events", "Event")
LEASES = Kind("coordination.k8s.io", "v1", "leases", "Lease")
DEPLOYMENTS = Kind("apps", "v1", "deployments", "Deployment")
STATEFUL_SETS = Kind("apps", "v1", "statefulsets", "StatefulSet")
REPLICA_SETS = Kind("apps", "v1", "replicasets", "ReplicaSet")
STATEFUL_SETS = Kind("apps", "v1", "statefulsets", "StatefulSet")
JOBS = Kind("batch", "v1", "jobs", "Job")
CRON_JOBS = Kind("batch", "v1", "cronjobs", "CronJob")
ROLES = Kind("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLE_BINDINGS = Kind("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
CLUSTER_ROLES = Kind("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS = Kind(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
MUTATING_WEBHOOKS = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
VALIDATING_WEBHOOKS = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
POLICIES = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    namespaced=False,
)
POLICY_BINDINGS = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)
CERTIFICATE_REQUESTS = Kind(
    "certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", namespaced=False
)
SIGNERS = Kind("certificates.k8s.io", "v1", "signers", "Signer", namespaced=False)
"""Resource that occurs only in grants: the right to approve requests for a signer."""
TOKEN_REVIEWS = Kind("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)
SELF_SUBJECT_REVIEWS = Kind("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)
SUBJECT_ACCESS_REVIEWS = Kind(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
SELF_ACCESS_REVIEWS = Kind(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
SELF_RULES_REVIEWS = Kind(
    "authorization.k8s.io", "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", namespaced=False
)
POD_METRICS = Kind("metrics.k8s.io", "v1beta1", "pods", "PodMetrics")
NODE_METRICS = Kind("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", namespaced=False)
"""Kind that is served only with a metrics-server or a similar component."""

CRDS = Kind("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)

CLUSTER_PROPERTIES = Kind("about.k8s.io", "v1alpha1", "clusterproperties", "ClusterProperty", namespaced=False)
"""Kind of SIG Multicluster (KEP-2149), served only if it was installed, as is the next one."""
CLUSTER_CLAIMS = Kind(OCM_GROUP, "v1alpha1", "clusterclaims", "ClusterClaim", namespaced=False)

# Kinds of Open Cluster Management, at the stored versions of its API repository.
MANAGED_CLUSTERS = Kind(OCM_GROUP, "v1", "managedclusters", "ManagedCluster", namespaced=False)
MANAGED_CLUSTER_SETS = Kind(OCM_GROUP, "v1beta2", "managedclustersets", "ManagedClusterSet", namespaced=False)
MANAGED_CLUSTER_SET_BINDINGS = Kind(OCM_GROUP, "v1beta2", "managedclustersetbindings", "ManagedClusterSetBinding")
PLACEMENTS = Kind(OCM_GROUP, "v1beta1", "placements", "Placement")
PLACEMENT_DECISIONS = Kind(OCM_GROUP, "v1beta1", "placementdecisions", "PlacementDecision")
ADDON_PLACEMENT_SCORES = Kind(OCM_GROUP, "v1alpha1", "addonplacementscores", "AddOnPlacementScore")
MANIFEST_WORKS = Kind(WORK_GROUP, "v1", "manifestworks", "ManifestWork")
"""Manifests that the agent of Open Cluster Management applies in the cluster of the ManifestWork's namespace."""
APPLIED_MANIFEST_WORKS = Kind(WORK_GROUP, "v1", "appliedmanifestworks", "AppliedManifestWork", namespaced=False)
"""Record of the objects that a ManifestWork has created in its cluster, and their owner."""
MANAGED_CLUSTER_ADDONS = Kind(ADDON_GROUP, "v1beta1", "managedclusteraddons", "ManagedClusterAddOn")
CLUSTER_MANAGEMENT_ADDONS = Kind(
    ADDON_GROUP, "v1beta1", "clustermanagementaddons", "ClusterManagementAddOn", namespaced=False
)
REGISTERED_CLUSTERS = Kind(REGISTER_GROUP, "v1", "managedclusters", "ManagedCluster", namespaced=False)
"""Resource that occurs only in rights: to accept a cluster, and to renew its certificate."""
NEW_EVENTS = Kind("events.k8s.io", "v1", "events", "Event")
"""Events by their newer API group, in which agents of members write them."""
CLUSTER_MANAGERS = Kind(
    "operator.open-cluster-management.io", "v1", "clustermanagers", "ClusterManager", namespaced=False
)
"""Kind that is served if the controllers of Open Cluster Management are installed."""

TARGETS = Kind(GROUP, VERSION, "targets", "Target")
CLUSTER_TARGETS = Kind(GROUP, VERSION, "clustertargets", "ClusterTarget", namespaced=False)
SOURCES = Kind(GROUP, VERSION, "sources", "Source")
CLUSTER_SOURCES = Kind(GROUP, VERSION, "clustersources", "ClusterSource", namespaced=False)
TARGET_KINDS = Kinds(TARGETS, CLUSTER_TARGETS)
SOURCE_KINDS = Kinds(SOURCES, CLUSTER_SOURCES)
CLUSTER_SUMMARIES = Kind(GROUP, VERSION, "clustersummaries", "ClusterSummary", namespaced=False)
CHAPERONS = Kind(GROUP, VERSION, "podchaperons", "PodChaperon")
SERVICE_LINKS = Kind(OWN_GROUP, VERSION, "servicelinks", "ServiceLink")
SCHEDULING_MANIFESTS = Kind(P2CODE_GROUP, "v1alpha1", "p2codeschedulingmanifests", "P2CodeSchedulingManifest")
"""Kind of P2CODE's scheduler: whole applications, placed by annotations."""
MULTI_CLUSTER_NETWORKS = Kind(AC3_GROUP, "v1alpha1", "multiclusternetworks", "MultiClusterNetwork")
"""Kind of AC3's network operator: links between clusters."""
GATEWAY_PEERS = Kind(OWN_GROUP, VERSION, "gatewaypeers", "GatewayPeer")
