"""Names of how clusters reach each other's pods: what a cluster tells of its pod networks, and what is made of it."""

import re

from agent.api.names.prefixes import SHORT_PREFIX

ANNOTATION_NETWORKS = SHORT_PREFIX + "networks"
"""On the ClusterSummary: JSON of the pod networks of a cluster, and where a pod of its agent says whose it is. On
virtual nodes: the networks of their target."""
ANNOTATION_POD_IPS = SHORT_PREFIX + "pod-ips"
"""On proxy pods whose target's pods are not reached at their own addresses from here: what these are."""

OWN_GROUP = "multicluster.flotilla"
"""Of the kinds that Admiralty does not have."""
AFFINITY = "affinity"
"""Annotation of a Service (suffix): whose endpoints callers prefer, as `service.cilium.io/affinity` has it."""
LOCAL_FIRST = "local"
AFFINITIES = (LOCAL_FIRST, "remote", "none")
SERVICE_REROUTE = "service-reroute"
"""Annotation of a namespace (suffix): whether selectors of its Services are rewritten; one of `SERVICE_REROUTES`."""
SERVICE_REROUTES = ("auto", "always", "never")
ANNOTATION_CILIUM_AFFINITY = "service.cilium.io/affinity"

LABEL_LINK_OF = SHORT_PREFIX + "link-of"
"""On a Service that leads to one in another namespace: the UID of a ServiceLink that asks for it."""
ANNOTATION_LINKED_SERVICE = SHORT_PREFIX + "linked-service"
"""On the same: namespace and name of the Service whose endpoints it has."""
ANNOTATION_LINKED_IN = SHORT_PREFIX + "linked-in"
"""On the same: JSON of the virtual nodes whose targets have a copy of it."""
LABEL_SKUPPER = SHORT_PREFIX + "skupper"
"""On what we have made for Skupper: the Service that it is for, empty for Sites and links."""
LABEL_LINKERD = SHORT_PREFIX + "linkerd"
"""On a Service that we have made a member of Linkerd's federated Service: so that what is its user's stays."""
LABEL_FEDERATED = "mirror.linkerd.io/federated"
"""By it Linkerd knows such members (`member`)."""

OVERLAP = "PodNetworksOverlap"
STRANGERS = "PodNetworkUnreachable"
UNTOLD = "PodNetworksUnknown"
NOT_FLAT = (OVERLAP, STRANGERS, UNTOLD)
"""Reasons for which the condition ServicesShared of a Target is False: its pods are not reached at their addresses."""
BY_GATEWAY = "Gateway"
"""Reason for which it is True although they are not: gateways are called instead."""
GATEWAY_USABLE = "GatewayUsable"
"""Condition of a Target whose cluster tells of gateways: whether these may be used with those of other targets."""

ANNOTATION_GATEWAY = SHORT_PREFIX + "gateway"
"""On the ClusterSummary: JSON of where the gateways of a cluster are called, and of the CA of their certificates."""
GATEWAY_SLICE_MANAGER = "gateway.flotilla"
"""Who manages EndpointSlices that lead to the own gateway (`endpointslice.kubernetes.io/managed-by`)."""
LABEL_GATEWAY_PEER = SHORT_PREFIX + "gateway-peer"
"""On the same: the GatewayPeer whose Services are reached there."""
LABEL_HEADLESS_OF = SHORT_PREFIX + "headless-of"
"""On a Service that stands for a host of a headless Service in another cluster: that Service, in the same namespace."""
LABEL_GATEWAY_HOST = SHORT_PREFIX + "gateway-host"
"""On the same: the host's name, empty for all endpoints that have none."""
ADMIT_GATEWAY = "admit-gateway"
"""Annotation of a NetworkPolicy (suffix) that follows: gateways of targets are among whom it lets in there."""
GATEWAY_SECRET = "multicluster-scheduler-gateway-cert"
"""Secret of the CA and the certificate of a cluster's gateways."""
GATEWAY_SERVICE = "multicluster-scheduler-gateway"
"""Service of a cluster's gateways, unless a setting names another."""
CA_LIMIT, ADDRESS_LIMIT, ADDRESSES_LIMIT = 32768, 270, 16
PEER_SERVICES_LIMIT = 5_000
"""Services in each list of a GatewayPeer. An object of 1.5 MiB, the most that etcd takes, has room for about 3,300
Services that are both called and offered, so no list that an earlier agent has written is longer in practice."""
"""Characters of the CA and of an address of gateways, and how many addresses are told at most."""

_EXTERNAL = re.compile(r"external/[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_EXTERNAL_LIMIT = 100


def external(driver: str) -> str:
    """The NAME of a driver `external/NAME`, which another controller is; empty for other drivers, and for none."""
    good = len(driver) <= _EXTERNAL_LIMIT and _EXTERNAL.fullmatch(driver)
    return driver.partition("/")[2] if good else ""
