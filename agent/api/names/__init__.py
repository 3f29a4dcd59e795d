"""Every label, annotation, finalizer and derived name, defined once (wire contract: Admiralty 0.17).

Keys are written with the prefix `multicluster.admiralty.io/`; annotations that users set are also read with the
short prefix `multicluster/`. Keys that only Flotilla uses have the prefix `multicluster/`.
"""

from agent.api.names.derived import (
    LONG_LIMIT,
    SHORT_LIMIT,
    chaperon,
    cluster_source_binding,
    cluster_source_viewer_binding,
    feature_binding,
    finalizer,
    gateway_peer,
    join,
    mirror,
    origin,
    sign,
    source_binding,
    source_label,
    source_renewal,
    source_viewer_binding,
    virtual_node,
)
from agent.api.names.fencing import ANNOTATION_KEPT
from agent.api.names.following import ANNOTATION_TARGET_CONDITIONS
from agent.api.names.links import ANNOTATION_POD_IPS
from agent.api.names.moves import ANNOTATION_MOVED, ANNOTATION_REPLACES, MARKS
from agent.api.names.prefixes import GROUP, PREFIX, SHORT_PREFIX, VERSION, annotation, is_ours

__all__ = [
    "GROUP",
    "LONG_LIMIT",
    "PREFIX",
    "SHORT_LIMIT",
    "SHORT_PREFIX",
    "VERSION",
    "annotation",
    "chaperon",
    "cluster_source_binding",
    "cluster_source_viewer_binding",
    "feature_binding",
    "finalizer",
    "gateway_peer",
    "is_ours",
    "join",
    "mirror",
    "origin",
    "sign",
    "source_binding",
    "source_label",
    "source_renewal",
    "source_viewer_binding",
    "virtual_node",
]

# Namespaces
LABEL_ENABLED = "multicluster-scheduler"
ENABLED_VALUE = "enabled"
ELECT_BY_DEFAULT = "elect-by-default"
"""Annotation of a namespace (suffix): `true` elects its pods without an annotation of their own."""
LABEL_ELECT_BY_DEFAULT = SHORT_PREFIX + ELECT_BY_DEFAULT
"""The annotation above as a label, for namespace selectors. The agent derives the label from the annotation."""

# Annotations users set on pods (suffixes: each is accepted under both prefixes)
ELECT = "elect"
NO_RESERVATION = "no-reservation"
PROXY_CONSTRAINTS = "proxy-pod-scheduling-constraints"
USE_CONSTRAINTS = "use-constraints-from-spec-for-proxy-pod-scheduling"
NO_PREFIX_REGEXP = "no-prefix-label-regexp"
SCHEDULING = "scheduling"
SCHEDULING_MODES = ("ranked", "reserve")
FOLLOW_ACCOUNT = "follow-service-account"
"""Annotation of a pod or a namespace (suffix): whether the pods' service accounts follow them; the pod's takes
precedence. By default they do in a namespace that elects by default."""
FOLLOW_ROLES = "follow-roles"
"""As above, for Roles and RoleBindings of the pods' service accounts."""
FOLLOW_POLICIES = "follow-network-policies"
"""As above, for NetworkPolicies that select the pods."""
PRIORITY_CLASS = "priority-class"
"""Annotation of a pod (suffix): whether the pod waits in a target without its PriorityClass, or runs without one."""
PRIORITY_CLASS_REQUIRED = "require"
PRIORITY_CLASS_CHOICES = (PRIORITY_CLASS_REQUIRED, "optional")
SOURCE_API = "source-api"
"""Annotation of a pod (suffix): `true` gives its delegate access to the source's API, with a token of its account."""
SOURCE_API_ACCOUNTS = "source-api-accounts"
"""Annotation of a namespace (suffix): service accounts whose tokens may be sent to targets, `NAME,NAME`; `*`
for all."""
LABEL_TOKEN_OF = SHORT_PREFIX + "token-of"
"""Label of Secrets with such tokens: UID of the source's kube-system namespace."""
ANNOTATION_TOKEN_EXPIRES = SHORT_PREFIX + "token-expires"
INJECTED = "injected"
"""Annotation of a pod or a namespace (suffix): whether delegates get containers that other webhooks inject; the
pod's takes precedence."""
INJECTED_FOLLOW = "follow"
INJECTED_CHOICES = (INJECTED_FOLLOW, "stay")
SHUTDOWN_DELAY = "shutdown-delay"
"""Annotation of a pod or a namespace (suffix): seconds for which delegates that a Service selects keep serving
after the start of their deletion; the pod's takes precedence."""
POD_GROUP = "group"
"""Pods of one namespace with the same value start together or not at all."""
POD_GROUP_SIZE = "group-size"
POD_GROUP_POLICY = "group-policy"
POD_GROUP_POLICIES = ("any", "one-cluster")
POD_GROUP_ON_FAILURE = "group-on-failure"
"""Annotation of a pod (suffix): reaction to the loss of a member of a group that has started."""
RESTART = "restart"
POD_GROUP_ON_FAILURES = ("keep", RESTART)

# Annotations and labels that Flotilla writes
ANNOTATION_CREATED_BY = SHORT_PREFIX + "created-by"
"""Annotation of proxy pods and their chaperons: creator of the pod, for the audit log of the target."""
ANNOTATION_MANIFEST = PREFIX + "sourcepod-manifest"
LABEL_HAS_FINALIZER = PREFIX + "has-finalizer"
LABEL_PARENT_UID = PREFIX + "parent-uid"
LABEL_PARENT_CLUSTER_NAME = PREFIX + "parent-cluster-name"
LABEL_PARENT_CLUSTER_UID = SHORT_PREFIX + "parent-cluster-uid"
LABEL_SERVING = SHORT_PREFIX + "serving"
"""Label of chaperons and delegates: `true` while copies of Services may select the delegate; no policy selects
by it."""
ANNOTATION_PARENT_NAME = PREFIX + "parent-name"
ANNOTATION_PARENT_NAMESPACE = PREFIX + "parent-namespace"
ANNOTATION_IS_RESERVED = PREFIX + "is-reserved"
ANNOTATION_IS_ALLOWED = PREFIX + "is-allowed"
ANNOTATION_RESERVE_ROUND = SHORT_PREFIX + "reserve-round"
"""Annotation of chaperons: a number; a source that still wants a reservation whose hold has ended writes a
higher one."""
ANNOTATION_RESERVE_ENDED = SHORT_PREFIX + "reserve-ended"
"""Annotation of chaperons: round whose hold ended without permission; the target holds again from a higher round on."""
ANNOTATION_HOLD = SHORT_PREFIX + "hold"
"""Annotation of chaperons in addition to is-reserved: the hold that has reserved it, and its latest end."""
ANNOTATION_POD_MISSING_SINCE = PREFIX + "pod-missing-since"
ANNOTATION_POD_MADE = SHORT_PREFIX + "pod-made"
"""Annotation of chaperons whose pod must not run twice: it was or is about to be created. Absent: it has not run."""
ANNOTATION_POD_ENDING = SHORT_PREFIX + "pod-ending"
"""Annotation of chaperons: the pod is being deleted in the target, which may take long, on a lost node forever."""
ANNOTATION_CLAIM = SHORT_PREFIX + "claim"
"""Annotation of proxy pods: virtual node of the only target that may have a chaperon of the pod (ruling 1)."""
ANNOTATION_CLAIM_UID = SHORT_PREFIX + "claim-uid"
"""Annotation of proxy pods in mode `reserve`: UID of the one chaperon in that target that may be allowed."""
ANNOTATION_CLAIM_RENEWED = SHORT_PREFIX + "claim-renewed"
"""Annotation of proxy pods in mode `ranked`: changes whenever a chaperon is about to be sent for an earlier claim.

So a replica that does not know of that chaperon cannot move a claim that another replica has acted on.
"""
ANNOTATION_AGENT_VERSION = SHORT_PREFIX + "agent-version"
"""Annotation of the ClusterSummary: version of the agent that wrote it."""
ANNOTATION_LIVE_CHANGES = SHORT_PREFIX + "live-changes"
"""Annotation of chaperons: changes of the proxy pod after its creation, for the delegate to follow."""
ANNOTATION_ATTEMPTS = SHORT_PREFIX + "attempts"
ANNOTATION_GROUP_RUN = SHORT_PREFIX + "group-run"
"""Annotation of pods of groups that restart as a whole: the start of the group to which they belong."""
STATE_OF_PROXY = frozenset(
    (
        ANNOTATION_CLAIM,
        ANNOTATION_CLAIM_UID,
        ANNOTATION_CLAIM_RENEWED,
        ANNOTATION_ATTEMPTS,
        ANNOTATION_GROUP_RUN,
        ANNOTATION_POD_IPS,
        ANNOTATION_TARGET_CONDITIONS,
        ANNOTATION_KEPT,
        *MARKS,
    )
)
"""The agent's state of a proxy pod: meaningless on another pod, for example one from a backup."""
STATE_OF_REPLACEMENT = (ANNOTATION_REPLACES, ANNOTATION_MOVED)
"""The agent's state of a pod that it has created to replace another one."""
OURS_ON_PROXY = (ANNOTATION_MANIFEST, ANNOTATION_CREATED_BY, *STATE_OF_REPLACEMENT, *sorted(STATE_OF_PROXY))
"""Annotations of proxy pods that only the webhook and the agent write."""
ANNOTATION_NODE_SHAPES = SHORT_PREFIX + "node-shapes"
ANNOTATION_COUNTED = SHORT_PREFIX + "counted"
"""Annotation of the ClusterSummary: JSON of the number of delegates with a node that its free capacity
includes, by the UID of their source cluster; absent without published free capacity."""
ANNOTATION_FREE = SHORT_PREFIX + "free"
"""Annotation of virtual nodes: JSON of the total free capacity of the target's nodes, by resource."""
ANNOTATION_CLUSTER_PROPERTIES = SHORT_PREFIX + "cluster-properties"
"""Annotation of the ClusterSummary: JSON list of its labels that are properties of the cluster and not of its nodes."""
ANNOTATION_APPLIED_LABELS = SHORT_PREFIX + "applied-labels"
"""Annotation of virtual nodes and ManagedClusters: their labels that came from the target, as JSON."""
LABEL_TARGET_NAMESPACE = PREFIX + "target-namespace"
LABEL_TARGET_NAME = PREFIX + "target-name"
LABEL_CLUSTER_TARGET_NAME = PREFIX + "cluster-target-name"

FINALIZER_DRAIN = SHORT_PREFIX + "drain"
"""Finalizer of Targets and their kubeconfig Secrets: credentials stay until the target is drained (ruling 8)."""
FINALIZER_V010 = PREFIX + "multiclusterForegroundDeletion"
LABEL_TARGET_SECRET = SHORT_PREFIX + "target-secret"
"""Label of Secrets with Flotilla's finalizer, so that one watch finds them all."""
FORCE_REMOVE = "force-remove"
"""Annotation of a Target (suffix): `true` removes it although delegates may still run in the target."""
DELETE_ORPHANS = "delete-orphans"
"""Annotation of a Target (suffix): time that its condition OrphansDeleted names; permits deletion of the held
orphans."""
ANNOTATION_ABSENCES = SHORT_PREFIX + "absences"
"""Annotation of the controllers' Lease: JSON of the last intervals (pairs of times) in which no replica held it."""

STORAGE_CLASSES = "storage-classes"
"""Annotation of a Target (suffix): `SOURCE=TARGET,...`, storage classes of claims in the source and the target.
An empty class after the equals sign is the target's default class."""
ANNOTATION_VOLUME_IN = SHORT_PREFIX + "volume-in"
"""Annotation of claims: virtual node of the target that has the volume."""
ANNOTATION_ORPHANED_SINCE = SHORT_PREFIX + "orphaned-since"
"""Annotation of claims with a volume in targets: time since when the source has no such claim, without having
observed its deletion."""
STAND_IN = "stand-in"
"""Annotation of a claim (suffix): `false` leaves it Pending in the source while its volume is in a target."""
LABEL_STAND_IN = SHORT_PREFIX + STAND_IN
"""Label of placeholder volumes in the source for the volumes that claims have in targets."""
STAND_IN_DRIVER = "stand-in.multicluster.flotilla"
"""CSI driver of placeholder volumes: no node has it, so that nothing can mount them."""
# Services and Ingresses that several clusters share
GLOBAL = "global"
"""Annotation of a Service (suffix): `true` shares it with the other clusters, `false` leaves it unshared."""
ANNOTATION_GLOBAL = PREFIX + GLOBAL
ANNOTATION_CILIUM_V1 = "io.cilium/global-service"
ANNOTATION_CILIUM = "service.cilium.io/global"
ANNOTATION_IS_DELEGATE = PREFIX + "is-delegate"
"""Annotation of copies of Services and Ingresses: they are not shared any further."""
ANNOTATION_ORIGINAL_SELECTOR = PREFIX + "original-selector"
ANNOTATION_MARKS = SHORT_PREFIX + "marks"
"""Annotation of shared originals: JSON list of the annotations that Flotilla added, and removes when sharing ends."""
ANNOTATION_COPIED_KEYS = SHORT_PREFIX + "copied-keys"
"""Annotation of copies: JSON list of the keys of labels and annotations from the original; others belong to the
target."""
LABEL_GLOBAL = SHORT_PREFIX + "global"
"""Label of shared Services. Their EndpointSlices inherit it, so that a watch can select them."""
LABEL_INGRESS_SECRET = SHORT_PREFIX + "ingress-secret-of"
"""Label of copies of Secrets that Ingresses name: UID of the source's kube-system namespace."""
LABEL_ORIGIN = SHORT_PREFIX + "origin"
"""Label of Flotilla's EndpointSlices: the cluster with the endpoints."""
SHARE_SERVICES = "share-services"
"""Annotation of a namespace (suffix): whether all of its Services are shared. By default they are in a
namespace that elects by default."""
COPY_LOAD_BALANCER = "copy-load-balancer"
"""Annotation of a Service (suffix): `true` makes its copies be of type LoadBalancer, too."""
PUBLISH_ADDRESSES = "publish-addresses"
"""Annotation of a Service or Ingress (suffix): `true` publishes the addresses of its copies' load balancers in
its status. The key of an annotation lists all addresses in that annotation, too."""
ANNOTATION_ADDRESSES = SHORT_PREFIX + "addresses"
"""Annotation of that Service or Ingress: JSON of the addresses of copies, by virtual node."""
ANNOTATION_ADDRESSES_IN = SHORT_PREFIX + "addresses-in"
"""Annotation of that Service or Ingress: the annotation with all addresses, which Flotilla removes when no
longer requested."""
NETWORK_DRIVER = "network-driver"
"""Annotation of a Target (suffix): how its cluster and the others learn each other's Service endpoints."""
ENDPOINT_SLICES_DRIVER = "endpointslices"
SKUPPER_DRIVER = "skupper"
NETWORK_DRIVERS = (ENDPOINT_SLICES_DRIVER, "cilium", "mcs", "istio", "linkerd", SKUPPER_DRIVER, "gateway", "none")
DRIVER_CHOICES = (*NETWORK_DRIVERS, "external/NAME")
"""Drivers as shown to users: NAME is that of another controller."""
SKUPPER_SITE = "skupper-site"
"""Annotation of a Namespace (suffix): `true` connects it by Skupper with the same namespace in every target."""
LABEL_SERVICE_NAME = "kubernetes.io/service-name"
LABEL_SLICE_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
SLICE_MANAGER = "endpointslice-controller.flotilla"

UNINSTALL_POLICY = "uninstall-policy"
"""Annotation of the agent's Deployment (suffix): refuse, delete or orphan; overrides the value of the chart."""

WEIGHT = "weight"
"""Annotation of a Target (suffix): preference over others, -100 to 100."""

LABEL_SOURCE = SHORT_PREFIX + "source"
"""Label of the service accounts and bindings that Flotilla created for a Source: `source_label`."""
ANNOTATION_SOURCE = SHORT_PREFIX + "source"
"""Annotation of these objects: namespace and name of the Source, which may be too long for a label."""

ANNOTATION_CLUSTER_UID = SHORT_PREFIX + "cluster-uid"
"""Annotation of objects that `flotilla join` creates: UID of the kube-system namespace of the cluster that they
represent. On the ClusterSummary: that of the cluster itself."""
ACCEPT_CLUSTER = "accept-cluster"
"""Annotation of a Target (suffix): UID of the cluster that replaces the one to which its pods were sent."""

TAINT_UNREACHABLE = SHORT_PREFIX + "unreachable"
TAINT_DRAINING = SHORT_PREFIX + "draining"
TAINT_AGENT = SHORT_PREFIX + "agent-not-ready"
"""Taint of a virtual node whose target answers, but whose agent creates no delegates."""

LABELS_OF_NODE = frozenset(("topology.kubernetes.io/region", "topology.kubernetes.io/zone"))
"""Labels that API servers copy from the node to a pod at binding (KEP-4742): proxy and delegate have their own
values."""

# Virtual nodes
PROVIDER_KEY = "virtual-kubelet.io/provider"
PROVIDER_VALUE = "admiralty"

SCHEDULER_PROXY = "admiralty-proxy"
SCHEDULER_CANDIDATE = "admiralty-candidate"

SUMMARY_NAME = "singleton"

SERVICE_ACCOUNT_MOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"

KUBELET_SIGNER = "kubernetes.io/kubelet-serving"
CLIENT_CA_NAMESPACE = "kube-system"
CLIENT_CA_CONFIGMAP = "extension-apiserver-authentication"
"""ConfigMap in which API servers publish the CA of their clients."""

LEASE_CONTROLLERS = "admiralty-controller-manager"
LEASE_SOURCES = "multicluster-sources"
"""Lease with the heartbeats of sources, in the namespace of a target's agent."""
LEASE_CANDIDATES = "admiralty-candidate-scheduler"
"""Leader lease of a cluster's candidate schedulers."""
NODE_LEASE_NAMESPACE = "kube-node-lease"


def children_of(cluster_uid: str) -> str:
    """Return the label selector of the objects that a source cluster has created in its targets."""
    return f"{LABEL_PARENT_CLUSTER_UID}={cluster_uid}"
