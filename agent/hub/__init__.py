"""A hub: other clusters register with this one, as agents of Open Cluster Management do, and stay members of it.

requests (certificates: identities, approval), registration (namespace and rights: rights, cleanup) and heartbeats
(leases: health) are controllers with their pure decisions. A member is no Target: it gets no pods.
"""
