"""Names about connectivity between clusters: published pod networks, shared Services, gateways."""

import re

from agent.api.names.prefixes import SHORT_PREFIX

ANNOTATION_NETWORKS = SHORT_PREFIX + "networks"
"""Annotation of the ClusterSummary: JSON of a cluster's pod networks, and the address at which a pod of its
agent reports its cluster. On virtual nodes: the networks of their target."""
ANNOTATION_POD_IPS = SHORT_PREFIX + "pod-ips"
"""Annotation of proxy pods whose delegates cannot be reached at their own addresses from the source: these
addresses."""

OWN_GROUP = "multicluster.flotilla"
"""API group of the kinds that Admiralty does not have."""
AFFINITY = "affinity"
"""Annotation of a Service (suffix): endpoints that callers prefer, with the values of `service.cilium.io/affinity`."""
LOCAL_FIRST = "local"
AFFINITIES = (LOCAL_FIRST, "remote", "none")
SERVICE_REROUTE = "service-reroute"
"""Annotation of a namespace (suffix): whether selectors of its Services are rewritten; one of `SERVICE_REROUTES`."""
SERVICE_REROUTES = ("auto", "always", "never")
ANNOTATION_CILIUM_AFFINITY = "service.cilium.io/affinity"

LABEL_LINK_OF = SHORT_PREFIX + "link-of"
"""Label of a Service for callers in another namespace: UID of the ServiceLink that requests it."""
ANNOTATION_LINKED_SERVICE = SHORT_PREFIX + "linked-service"
"""Annotation of such a Service: namespace and name of the Service with its endpoints."""
ANNOTATION_LINKED_IN = SHORT_PREFIX + "linked-in"
"""Annotation of such a Service: JSON of the virtual nodes whose targets have a copy of it."""
LABEL_SKUPPER = SHORT_PREFIX + "skupper"
"""Label of objects that Flotilla has created for Skupper: their Service, empty for Sites and links."""
LABEL_LINKERD = SHORT_PREFIX + "linkerd"
"""Label of a Service that Flotilla has added to Linkerd's federated Service. Services that users added are left
alone."""
LABEL_FEDERATED = "mirror.linkerd.io/federated"
"""Label by which Linkerd recognizes such members (`member`)."""

OVERLAP = "PodNetworksOverlap"
STRANGERS = "PodNetworkUnreachable"
UNTOLD = "PodNetworksUnknown"
NOT_FLAT = (OVERLAP, STRANGERS, UNTOLD)
"""Reasons for the status False of a Target's condition ServicesShared: its pods cannot be reached at their
addresses."""
BY_GATEWAY = "Gateway"
"""Reason for the status True although pods cannot be reached at their addresses: gateways are used instead."""
SERVICES_SHARED = "ServicesShared"
"""Condition of a Target: whether its Services are shared. The reason is the network driver or the obstacle."""
GATEWAY_USABLE = "GatewayUsable"
"""Condition of a Target whose cluster publishes gateways: whether they can be used with those of other targets."""

ANNOTATION_GATEWAY = SHORT_PREFIX + "gateway"
"""Annotation of the ClusterSummary: JSON of the addresses of a cluster's gateways, and of the CA of their
certificates."""
ANNOTATION_TRUSTED_CA = SHORT_PREFIX + "trusted-ca"
"""Annotation of a GatewayPeer: digest of the CA of this cluster's gateways that the source has written to the peer's
cluster; empty if it has written none there."""
GATEWAY_SLICE_MANAGER = "gateway.flotilla"
"""Manager of EndpointSlices that route traffic to local gateways (`endpointslice.kubernetes.io/managed-by`)."""
LABEL_GATEWAY_PEER = SHORT_PREFIX + "gateway-peer"
"""Label of these EndpointSlices: the GatewayPeer whose Services they reach."""
LABEL_HEADLESS_OF = SHORT_PREFIX + "headless-of"
"""Label of a Service that represents a host of another cluster's headless Service: that Service, in this namespace."""
LABEL_GATEWAY_HOST = SHORT_PREFIX + "gateway-host"
"""Label of such a Service: the host's name, empty for all endpoints without one."""
ADMIT_GATEWAY = "admit-gateway"
"""Annotation of a copied NetworkPolicy (suffix): also admit gateways in targets."""
GATEWAY_SECRET = "multicluster-scheduler-gateway-cert"
"""Secret with the CA and the certificate of a cluster's gateways."""
GATEWAY_SERVICE = "multicluster-scheduler-gateway"
"""Service of a cluster's gateways, unless a setting names another."""
CA_LIMIT, ADDRESS_LIMIT, ADDRESSES_LIMIT = 32768, 270, 16
"""Largest numbers of characters of a gateway CA and of an address, and largest number of addresses."""
PEER_SERVICES_LIMIT = 5_000
"""Most Services in each list of a GatewayPeer. The largest object that etcd accepts (1.5 MiB) holds about 3,300
Services that are both called and offered. So lists of earlier agents are shorter in practice."""

_EXTERNAL = re.compile(r"external/[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_EXTERNAL_LIMIT = 100


def external(driver: str) -> str:
    """Return NAME of a driver `external/NAME`, which is another controller; empty for other drivers, and for none."""
    good = len(driver) <= _EXTERNAL_LIMIT and _EXTERNAL.fullmatch(driver)
    return driver.partition("/")[2] if good else ""
