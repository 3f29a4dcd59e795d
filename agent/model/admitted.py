"""What of an admitted proxy pod its delegate is made of.

Admission judged the proxy pod: Pod Security, quotas, policies about images, webhooks. So the delegate gets what was
judged, of the manifest only what the webhook took away, and of neither what belongs to the source:

    field, or what wrote it         travels   because
    nodeName                        no        the target's own scheduler chooses the node
    priority, preemptionPolicy      no        the target's admission sets them by the name of the class, which travels
    overhead                        no        the same by the runtime class
    serviceAccount                  no        an old name of serviceAccountName, which travels: an account of the target
    schedulingGates                 no        nobody in the target would open them again
    ephemeralContainers             no        a pod cannot be created with them: they follow as live changes
    tolerations, 300 s              no        every API server adds those for not-ready and unreachable to its own pods
    the account's token             no        a token of the source; the target mounts one of its own
    added containers and volumes    if asked  a mesh's sidecar would bring the identity that it has in the source
    what else webhooks changed      yes       the user's own containers are what admission made of them
    LimitRanger's defaults          yes       quotas have counted them
    imagePullSecrets                yes       the images are the same there, and Secrets that pods name follow
    enableServiceLinks              yes       the user's choice, or the default that the target would write, too
    resourceClaims                  yes       what was allocated for them here is in the status, which stays
    added tolerations               yes       of ExtendedResourceToleration, PodTolerationRestriction, webhooks: it
                                              was admitted with them, and nodes there may have the same taints
    added node selectors, affinity  yes       a queue chose nodes so while it gated the pod (`additions`)
    the constraints that were taken yes       among them what PodNodeSelector and RuntimeClass added before the webhook;
                                              not where the annotation says that they are for the proxy pod alone
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
"""As API servers write them, unless a flag of theirs names other seconds."""


def spec(proxy: Raw, source: Raw, *, injected: bool) -> Raw:
    """The pod spec that travels, as it is in the source: labels, environment and mounts are not rewritten yet.

    :param source: the pod as its user sent it, from the manifest
    :param injected: containers that other webhooks added travel, too
    :raises InvalidPod: if the manifest knows none of the containers, or constraints cannot be read or contradict
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
"""What is left out when nothing is left of it."""


def added_tolerations(proxy: Raw, source: Raw) -> list[Raw]:
    """Those of a proxy pod that the webhook has not given it; nor are they the ones by which pods leave a lost node.

    :raises InvalidPod: if the constraints of the manifest cannot be read
    """
    return list(additions.of(proxy["spec"], source).tolerations)


def _without_added(found: Raw, source: Raw) -> Raw:
    """Containers and volumes without those that the manifest does not know, and that none of the others uses."""
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
