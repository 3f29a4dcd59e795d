"""Every label, annotation, finalizer and derived name, once (wire contract: Admiralty 0.17).

Keys are written with the prefix `multicluster.admiralty.io/`; annotations that users set are read with the short
prefix `multicluster/`, too. Keys that only Flotilla knows live under `multicluster/`.
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
"""The same as a label, for namespace selectors. The annotation is the truth: the agent writes and removes the label."""

# Annotations users set on pods (suffixes: each is accepted under both prefixes)
ELECT = "elect"
NO_RESERVATION = "no-reservation"
PROXY_CONSTRAINTS = "proxy-pod-scheduling-constraints"
USE_CONSTRAINTS = "use-constraints-from-spec-for-proxy-pod-scheduling"
NO_PREFIX_REGEXP = "no-prefix-label-regexp"
SCHEDULING = "scheduling"
SCHEDULING_MODES = ("ranked", "reserve")
FOLLOW_ACCOUNT = "follow-service-account"
"""Annotation of a pod or a namespace (suffix): whether the pods' service accounts follow them; the pod's wins. Where
neither says so, they do in a namespace that elects by default."""
FOLLOW_ROLES = "follow-roles"
"""The same for Roles and RoleBindings of the pods' service accounts."""
FOLLOW_POLICIES = "follow-network-policies"
"""The same for NetworkPolicies that select the pods."""
PRIORITY_CLASS = "priority-class"
"""Annotation of a pod (suffix): whether it waits in a target that has no PriorityClass of its name, or goes without."""
PRIORITY_CLASS_REQUIRED = "require"
PRIORITY_CLASS_CHOICES = (PRIORITY_CLASS_REQUIRED, "optional")
SOURCE_API = "source-api"
"""Annotation of a pod (suffix): `true` has its delegate talk to the API of the source, with a token of its account."""
SOURCE_API_ACCOUNTS = "source-api-accounts"
"""Annotation of a namespace (suffix): service accounts whose tokens may go to targets, `NAME,NAME`; `*` for all."""
LABEL_TOKEN_OF = SHORT_PREFIX + "token-of"
"""On Secrets with such tokens: UID of the source's kube-system namespace."""
ANNOTATION_TOKEN_EXPIRES = SHORT_PREFIX + "token-expires"
INJECTED = "injected"
"""Annotation of a pod or a namespace (suffix): whether containers that other webhooks add travel; the pod's wins."""
INJECTED_FOLLOW = "follow"
INJECTED_CHOICES = (INJECTED_FOLLOW, "stay")
SHUTDOWN_DELAY = "shutdown-delay"
"""Annotation of a pod or a namespace (suffix): for how many seconds delegates that a Service selects serve on when they
are told to end; the pod's counts more."""
POD_GROUP = "group"
"""Pods of one namespace with the same value start together or not at all."""
POD_GROUP_SIZE = "group-size"
POD_GROUP_POLICY = "group-policy"
POD_GROUP_POLICIES = ("any", "one-cluster")
POD_GROUP_ON_FAILURE = "group-on-failure"
"""What becomes of a group that loses a member after it has started."""
RESTART = "restart"
POD_GROUP_ON_FAILURES = ("keep", RESTART)

# Annotations and labels we write
ANNOTATION_CREATED_BY = SHORT_PREFIX + "created-by"
"""On proxy pods and their chaperons: who created the pod, for the audit log of the target."""
ANNOTATION_MANIFEST = PREFIX + "sourcepod-manifest"
LABEL_HAS_FINALIZER = PREFIX + "has-finalizer"
LABEL_PARENT_UID = PREFIX + "parent-uid"
LABEL_PARENT_CLUSTER_NAME = PREFIX + "parent-cluster-name"
LABEL_PARENT_CLUSTER_UID = SHORT_PREFIX + "parent-cluster-uid"
LABEL_SERVING = SHORT_PREFIX + "serving"
"""On chaperons and delegates: `true` while copies of Services may select the delegate; no policy selects by it."""
ANNOTATION_PARENT_NAME = PREFIX + "parent-name"
ANNOTATION_PARENT_NAMESPACE = PREFIX + "parent-namespace"
ANNOTATION_IS_RESERVED = PREFIX + "is-reserved"
ANNOTATION_IS_ALLOWED = PREFIX + "is-allowed"
ANNOTATION_RESERVE_ROUND = SHORT_PREFIX + "reserve-round"
"""On chaperons: a number; a source that still wants a reservation whose hold has ended writes a higher one."""
ANNOTATION_RESERVE_ENDED = SHORT_PREFIX + "reserve-ended"
"""On chaperons: the round whose hold has ended without leave; the target holds again from a higher round on."""
ANNOTATION_HOLD = SHORT_PREFIX + "hold"
"""On chaperons, beside is-reserved: which hold has reserved it, and when that ends at the latest."""
ANNOTATION_POD_MISSING_SINCE = PREFIX + "pod-missing-since"
ANNOTATION_POD_MADE = SHORT_PREFIX + "pod-made"
"""On chaperons whose pod must not run twice: it was made, or is about to be. Not there: it has not run."""
ANNOTATION_POD_ENDING = SHORT_PREFIX + "pod-ending"
"""On chaperons: somebody in the target deletes the pod, which may take long: on a lost node, for ever."""
ANNOTATION_CLAIM = SHORT_PREFIX + "claim"
"""Virtual node whose target alone may hold a chaperon of the proxy pod (ruling 1)."""
ANNOTATION_CLAIM_UID = SHORT_PREFIX + "claim-uid"
"""Mode `reserve`: UID of the one chaperon there that may be allowed."""
ANNOTATION_CLAIM_RENEWED = SHORT_PREFIX + "claim-renewed"
"""Mode `ranked`: changes whenever a chaperon is about to be sent for a claim that was written before, so that a claim
that another replica has followed up cannot be moved by one that does not know."""
ANNOTATION_AGENT_VERSION = SHORT_PREFIX + "agent-version"
"""On the ClusterSummary: version of the agent that wrote it."""
ANNOTATION_LIVE_CHANGES = SHORT_PREFIX + "live-changes"
"""On chaperons: what changed on the proxy pod after its creation, and the delegate has to follow."""
ANNOTATION_ATTEMPTS = SHORT_PREFIX + "attempts"
ANNOTATION_GROUP_RUN = SHORT_PREFIX + "group-run"
"""On pods of groups that start again as a whole: which start of their group they belong to."""
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
"""What the agent has come to with a proxy pod: of no worth on another pod, such as one from a backup."""
STATE_OF_REPLACEMENT = (ANNOTATION_REPLACES, ANNOTATION_MOVED)
"""The same of a pod that the agent has created in place of another one."""
OURS_ON_PROXY = (ANNOTATION_MANIFEST, ANNOTATION_CREATED_BY, *STATE_OF_REPLACEMENT, *sorted(STATE_OF_PROXY))
"""Annotations of proxy pods that nobody but the webhook and the agent writes."""
ANNOTATION_NODE_SHAPES = SHORT_PREFIX + "node-shapes"
ANNOTATION_COUNTED = SHORT_PREFIX + "counted"
"""On the ClusterSummary: JSON of how many delegates with a node are in what it tells of free room, by the UID of the
cluster that they are from; absent where nothing is told of free room."""
ANNOTATION_FREE = SHORT_PREFIX + "free"
"""On virtual nodes: JSON of what all nodes of the target have left together, by resource."""
ANNOTATION_CLUSTER_PROPERTIES = SHORT_PREFIX + "cluster-properties"
"""On the ClusterSummary: JSON list of those of its labels that are properties of the cluster and not of its nodes."""
ANNOTATION_APPLIED_LABELS = SHORT_PREFIX + "applied-labels"
"""On virtual nodes and ManagedClusters: which of their labels came from the target, as JSON."""
LABEL_TARGET_NAMESPACE = PREFIX + "target-namespace"
LABEL_TARGET_NAME = PREFIX + "target-name"
LABEL_CLUSTER_TARGET_NAME = PREFIX + "cluster-target-name"

FINALIZER_DRAIN = SHORT_PREFIX + "drain"
"""On Targets and their kubeconfig Secrets: credentials stay until the target is drained (ruling 8)."""
FINALIZER_V010 = PREFIX + "multiclusterForegroundDeletion"
LABEL_TARGET_SECRET = SHORT_PREFIX + "target-secret"
"""On Secrets that carry our finalizer, so that one watch finds them all."""
FORCE_REMOVE = "force-remove"
"""Annotation of a Target (suffix): `true` removes it although delegates may still run there."""
DELETE_ORPHANS = "delete-orphans"
"""Annotation of a Target (suffix): the moment that its condition OrphansDeleted names; what is held there goes."""
ANNOTATION_ABSENCES = SHORT_PREFIX + "absences"
"""On the Lease of the controllers: JSON of pairs of moments between which nobody held it, the last ones."""

STORAGE_CLASSES = "storage-classes"
"""Annotation of a Target (suffix): `here=there,...`, storage classes of claims in the target; nothing after the equals
sign is the target's default class."""
ANNOTATION_VOLUME_IN = SHORT_PREFIX + "volume-in"
"""On claims: virtual node of the target that has the volume."""
ANNOTATION_ORPHANED_SINCE = SHORT_PREFIX + "orphaned-since"
"""On claims in targets that have a volume: since when the source, which has not seen it deleted, knows none."""
STAND_IN = "stand-in"
"""Annotation of a claim (suffix): `false` leaves it Pending here while its volume is in a target."""
LABEL_STAND_IN = SHORT_PREFIX + STAND_IN
"""On volumes of this cluster that stand for those that claims have in targets."""
STAND_IN_DRIVER = "stand-in.multicluster.flotilla"
"""The CSI driver that they name: no node has it, so that nothing can mount them."""
# Services and Ingresses that several clusters share
GLOBAL = "global"
"""Annotation of a Service (suffix): `true` shares it with the other clusters, `false` leaves it alone."""
ANNOTATION_GLOBAL = PREFIX + GLOBAL
ANNOTATION_CILIUM_V1 = "io.cilium/global-service"
ANNOTATION_CILIUM = "service.cilium.io/global"
ANNOTATION_IS_DELEGATE = PREFIX + "is-delegate"
"""On copies of Services and Ingresses: they are not shared any further."""
ANNOTATION_ORIGINAL_SELECTOR = PREFIX + "original-selector"
ANNOTATION_MARKS = SHORT_PREFIX + "marks"
"""On originals that are shared: JSON list of the annotations that we added, and take away when it is undone."""
ANNOTATION_COPIED_KEYS = SHORT_PREFIX + "copied-keys"
"""On copies: JSON list of the keys of labels and annotations that are the original's; others belong to the target."""
LABEL_GLOBAL = SHORT_PREFIX + "global"
"""On Services that are shared, so that their EndpointSlices, which inherit it, can be asked for."""
LABEL_INGRESS_SECRET = SHORT_PREFIX + "ingress-secret-of"
"""On copies of Secrets that Ingresses name: UID of the source's kube-system namespace."""
LABEL_ORIGIN = SHORT_PREFIX + "origin"
"""On EndpointSlices of ours: the cluster in which the endpoints are."""
SHARE_SERVICES = "share-services"
"""Annotation of a namespace (suffix): whether all of its Services are shared. Where it does not say so, they are in one
that elects by default."""
COPY_LOAD_BALANCER = "copy-load-balancer"
"""Annotation of a Service (suffix): `true` has its copies be of type LoadBalancer, too."""
PUBLISH_ADDRESSES = "publish-addresses"
"""Annotation of a Service or Ingress (suffix): `true` has it tell the addresses of its copies' load balancers; the key
of an annotation has all addresses listed there, too."""
ANNOTATION_ADDRESSES = SHORT_PREFIX + "addresses"
"""On the same: JSON of the addresses of copies, by virtual node."""
ANNOTATION_ADDRESSES_IN = SHORT_PREFIX + "addresses-in"
"""On the same: the annotation that we list all addresses in, and take away when nobody asks for it any more."""
NETWORK_DRIVER = "network-driver"
"""Annotation of a Target (suffix): how Services there and elsewhere learn of each other's endpoints."""
ENDPOINT_SLICES_DRIVER = "endpointslices"
SKUPPER_DRIVER = "skupper"
NETWORK_DRIVERS = (ENDPOINT_SLICES_DRIVER, "cilium", "mcs", "istio", "linkerd", SKUPPER_DRIVER, "gateway", "none")
DRIVER_CHOICES = (*NETWORK_DRIVERS, "external/NAME")
"""As users are told of them: NAME is that of another controller."""
SKUPPER_SITE = "skupper-site"
"""Annotation of a Namespace (suffix): `true` has it joined by Skupper with the same namespace in every target."""
LABEL_SERVICE_NAME = "kubernetes.io/service-name"
LABEL_SLICE_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
SLICE_MANAGER = "endpointslice-controller.flotilla"

UNINSTALL_POLICY = "uninstall-policy"
"""Annotation of the agent's Deployment (suffix): refuse, delete or orphan, over what the chart was installed with."""

WEIGHT = "weight"
"""Annotation of a Target (suffix): -100 to 100, how much it is preferred over others."""

LABEL_SOURCE = SHORT_PREFIX + "source"
"""On the service accounts and bindings that we made for a Source: `source_label`."""
ANNOTATION_SOURCE = SHORT_PREFIX + "source"
"""On the same, namespace and name of the Source, which as a label might be too long."""

ANNOTATION_CLUSTER_UID = SHORT_PREFIX + "cluster-uid"
"""On what `flotilla join` makes: UID of the kube-system namespace of the cluster that it stands for. On the
ClusterSummary: that of the cluster itself."""
ACCEPT_CLUSTER = "accept-cluster"
"""Annotation of a Target (suffix): UID of the cluster that takes the place of the one where its pods were sent."""

TAINT_UNREACHABLE = SHORT_PREFIX + "unreachable"
TAINT_DRAINING = SHORT_PREFIX + "draining"
TAINT_AGENT = SHORT_PREFIX + "agent-not-ready"
"""The target answers, but its agent makes no delegates."""

LABELS_OF_NODE = frozenset(("topology.kubernetes.io/region", "topology.kubernetes.io/zone"))
"""Labels that API servers copy from the node to a pod that they bind (KEP-4742): proxy and delegate have their own."""

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
"""Where API servers publish the CA of their clients."""

LEASE_CONTROLLERS = "admiralty-controller-manager"
LEASE_SOURCES = "multicluster-sources"
"""On which sources say that they live, in the namespace of a target's agent."""
LEASE_CANDIDATES = "admiralty-candidate-scheduler"
"""Of the candidate schedulers of a cluster, of which one works."""
NODE_LEASE_NAMESPACE = "kube-node-lease"


def children_of(cluster_uid: str) -> str:
    """Label selector of what a source cluster has made in its targets."""
    return f"{LABEL_PARENT_CLUSTER_UID}={cluster_uid}"
