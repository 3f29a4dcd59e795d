"""Fields of an admitted proxy pod that its delegate gets.

Admission in the source has checked the proxy pod: Pod Security, quotas, image policies, webhooks. The delegate
therefore gets the admitted spec. From the manifest it gets only the fields that our webhook changed. Fields that are
valid only in the source are left out:

    field, or writer of the field   copied    because
    nodeName                        no        the target's own scheduler chooses the node
    priority, preemptionPolicy      no        the target's admission sets them from priorityClassName, which is copied
    overhead                        no        the target's admission sets it from runtimeClassName, which is copied
    serviceAccount                  no        deprecated alias of serviceAccountName, which is copied
    schedulingGates                 no        no controller in the target would remove them
    ephemeralContainers             no        the API server creates no pod with them; they follow as live changes
    tolerations, 300 s              no        every API server adds those for not-ready and unreachable to its own pods
    the service account's token     no        valid only in the source; the target's admission mounts its own
    added containers and volumes    opt-in    a mesh's sidecar would have its identity from the source
    other changes by webhooks       yes       admission has checked the user's containers with these changes
    LimitRanger's defaults          yes       quotas have counted them
    imagePullSecrets                yes       the images are the same, and the Secrets are copied to the target
    enableServiceLinks              yes       the user's choice, or the default that the target also has
    resourceClaims                  yes       the devices that the source allocated are in the status, which stays
    added tolerations               yes       from ExtendedResourceToleration, PodTolerationRestriction or webhooks; the
                                              target's nodes may have the same taints
    added node selectors, affinity  yes       a queue selected nodes with them while it gated the pod (`additions`)
    constraints our webhook removed yes       includes additions of PodNodeSelector and RuntimeClass before our webhook;
                                              not if an annotation reserves the constraints for the proxy pod
"""

from collections.abc import Iterable
from typing import Any

from agent.api import names
from agent.model import additions, constraints, manifest
from agent.model.diff import others
from agent.model.proxypod import NODE_LOST

Raw = dict[str, Any]

_STAYS = frozenset(
    (
        *manifest.TAKEN,
        "nodeName",
        "priority",
        "preemptionPolicy",
        "overhead",
        "serviceAccount",
        "schedulingGates",
        "ephemeralContainers",
    )
)
_CONTAINERS = ("initContainers", "containers")
_DEFAULT_TOLERATIONS = tuple(
    {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300} for key in sorted(NODE_LOST)
)
"""Tolerations of DefaultTolerationSeconds admission; a flag of kube-apiserver may set other seconds."""


def spec(proxy: Raw, source: Raw, *, injected: bool) -> Raw:
    """Return the pod spec for the target, before labels, environment and mounts are rewritten.

    :param proxy: the admitted proxy pod
    :param source: the pod as its user sent it, from the manifest
    :param injected: whether containers that other webhooks added are copied, too
    :raises InvalidPod: if the manifest has none of the containers, or constraints are invalid or contradict
    """
    found = {key: value for key, value in proxy["spec"].items() if key not in _STAYS}
    taken = manifest.taken(source)
    annotations = source["metadata"].get("annotations")
    if names.annotation(annotations, names.USE_CONSTRAINTS) is not None:
        taken = {key: value for key, value in taken.items() if key not in constraints.FIELDS}
    added = additions.of(proxy["spec"], source)
    found |= additions.with_additions(taken, added)
    tolerations = others(taken.get("tolerations", ()), _DEFAULT_TOLERATIONS)
    found["tolerations"] = tolerations + others(added.tolerations, tolerations)
    if not injected:
        found |= _without_added(found, source)
    return {key: value for key, value in found.items() if value != [] or key not in _LISTS}


_LISTS = ("tolerations", "initContainers", "volumes")
"""Lists that are left out if they are empty."""


def added_tolerations(proxy: Raw, source: Raw) -> list[Raw]:
    """Return tolerations that neither the user nor our webhook wrote, without limited ones for lost nodes.

    :raises InvalidPod: if the constraints of the manifest cannot be read
    """
    return list(additions.of(proxy["spec"], source).tolerations)


def _without_added(found: Raw, source: Raw) -> Raw:
    """Return the containers that the manifest has, and the volumes that it has or that these containers use."""
    containers, volumes = manifest.known_names(source)
    kept = {field: [each for each in found.get(field) or () if each["name"] in containers] for field in _CONTAINERS}
    manifest.check_containers(source, found)
    volumes |= _used([*kept["initContainers"], *kept["containers"]])
    return kept | {"volumes": [each for each in found.get("volumes") or () if each["name"] in volumes]}


def _used(containers: Iterable[Raw]) -> set[str]:
    return {
        each["name"]
        for container in containers
        for field in ("volumeMounts", "volumeDevices")
        for each in container.get(field) or ()
    }
