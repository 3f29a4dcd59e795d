"""Names of AC3's network operator, whose MultiClusterNetworks list links, and ours that stand beside them."""

from agent.api.names.prefixes import SHORT_PREFIX

AC3_GROUP = "ac3.redhat.com"
AC3_NAMESPACE = "ac3no-system"
"""Where P2CODE's scheduler has its MultiClusterNetwork, which is one for all namespaces."""

FINALIZER = SHORT_PREFIX + "links"
"""On MultiClusterNetworks: ServiceLinks go first."""
ANNOTATION_NETWORK = SHORT_PREFIX + "ac3-network"
"""On ServiceLinks: the MultiClusterNetwork that they are made for, as `NAMESPACE/NAME`."""
LABEL_NETWORK_UID = SHORT_PREFIX + "ac3-network-uid"
"""On the same: its UID."""
ANNOTATION_SHARED_FOR = SHORT_PREFIX + "shared-for"
"""On Services: that we share them, not their user, and for whom."""
