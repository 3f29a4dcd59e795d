"""Schema of `spec.policy` of Sources and ClusterSources: what pods of other clusters may contain."""

from typing import Any

Schema = dict[str, Any]

_ITEMS, _CHARACTERS = 100, 253


def _may(description: str) -> Schema:
    return {"type": "boolean", "description": f"Whether pods may {description}; true if it is not set."}


def _list(description: str) -> Schema:
    items = {"type": "string", "minLength": 1, "maxLength": _CHARACTERS}
    return {"type": "array", "description": description, "maxItems": _ITEMS, "items": items}


POLICY: Schema = {
    "type": "object",
    "description": "What its pods may contain, beyond what this cluster's own admission says. A field that is not set "
    "restricts nothing. A PodChaperon has to satisfy the policies of all Sources of its namespace and of all "
    "ClusterSources.",
    "properties": {
        "hostNamespaces": _may("set hostNetwork, hostPID or hostIPC"),
        "hostPaths": _may("have hostPath volumes"),
        "privileged": _may("have containers that are privileged, or hostProcess ones of Windows"),
        "nodeNames": _may("choose a node by its name: by nodeName, or by a selector or affinity for its name"),
        "priorityClassNames": _list(
            "Priority classes that pods may name; one that names none is allowed. Any if it is not set."
        ),
        "serviceAccountNames": _list(
            "Service accounts that pods may use; one that names none uses `default`. Any if it is not set."
        ),
        "imagePrefixes": _list(
            "What names of images begin with: a registry and whole parts of the path, as registry.example:5000/team or "
            "registry.example/library. An image that names no registry is not allowed then. Any if it is not set."
        ),
    },
}
