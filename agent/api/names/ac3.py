"""Names of AC3's network operator, whose MultiClusterNetworks list links, and Flotilla's names for its objects."""

from agent.api.names.prefixes import SHORT_PREFIX

AC3_GROUP = "ac3.redhat.com"
AC3_NAMESPACE = "ac3no-system"
"""Namespace of the MultiClusterNetwork of P2CODE's scheduler, which is one for all namespaces."""

FINALIZER = SHORT_PREFIX + "links"
"""Finalizer of MultiClusterNetworks: their ServiceLinks are deleted first."""
ANNOTATION_NETWORK = SHORT_PREFIX + "ac3-network"
"""Annotation of ServiceLinks: their MultiClusterNetwork, as `NAMESPACE/NAME`."""
LABEL_NETWORK_UID = SHORT_PREFIX + "ac3-network-uid"
"""Label of these ServiceLinks: UID of their MultiClusterNetwork."""
ANNOTATION_SHARED_FOR = SHORT_PREFIX + "shared-for"
"""Annotation of Services that Flotilla, not their user, shares: for which networks."""
