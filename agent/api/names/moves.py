"""Annotations that say in which targets pods may be (suffixes: each is accepted under both prefixes)."""

TARGETS = "targets"
"""Of a namespace, of what controls pods, or of a pod: targets that its pods may go to, in groups of preference; what is
said closest to the pod counts. An empty value is all of them."""
ALLOWED_TARGETS = "allowed-targets"
"""The same without preferences: nothing that is said closer to the pod adds to it."""
