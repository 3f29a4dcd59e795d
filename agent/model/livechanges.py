"""Live changes: changes to a proxy pod after its creation, and the patches that apply them to its delegate.

They cover labels, annotations, and the mutable fields of a running pod's spec: images, resources of containers
and of the pod, added tolerations, a shorter deadline, ephemeral containers. Conditions that controllers in the
source write for the pod's readiness gates are applied to the delegate, too.

Labels of a pod that is withdrawn from Services count as removed: the delegate loses them, the proxy pod keeps
them. `multicluster/serving`, which only chaperons and delegates have, can be withdrawn, too. The source writes
the changes to the chaperon, both as one annotation and as the changed fields. The target's agent changes only
the fields named in the annotation, so other writers' changes to the delegate survive.
"""

from collections.abc import Collection, Mapping
from typing import Any, TypedDict

import msgspec

from agent.api import names
from agent.api.names import delegates
from agent.model import admitted, baseline, podconditions, replacement
from agent.model.delegatepod import delegate_containers
from agent.model.diff import others
from agent.model.downward import changed_files
from agent.model.pattern import InvalidPattern
from agent.model.relabel import exact_labels, labels_there

Raw = dict[str, Any]

_LISTS = ("containers", "initContainers")


class _Changes(TypedDict, total=False):
    labels: dict[str, str | None]
    annotations: dict[str, str | None]
    images: dict[str, str]
    resources: dict[str, dict[str, Any]]
    podResources: dict[str, Any]
    tolerations: list[dict[str, Any]]
    activeDeadlineSeconds: int
    ephemeralContainers: list[dict[str, Any]]
    gates: dict[str, str | None]
    generation: int
    born: int
    original: dict[str, dict[str, str | None]]


_decode = msgspec.json.Decoder(_Changes).decode


def changes(proxy: Raw, source: Raw, chaperon: Mapping[str, Any]) -> Raw:
    """Return the changes that the delegate has to apply; {} if the pod has not changed since its creation.

    A reported change stays in the result with its present value, so that the delegate also follows when the
    user reverts it. Keys:
    - labels and annotations: null removes a key
    - images and resources: by container
    - podResources: of the whole pod
    - tolerations: added ones only
    - activeDeadlineSeconds, ephemeralContainers
    - gates: statuses by condition type; null removes a condition
    - generation, born: generations of the proxy pod, now and when its chaperon was created; omitted while they are 1

    The chaperon's spec never changes; `baseline` has the original labels and annotations.

    :param source: the pod as its user sent it, from the manifest
    :raises InvalidPod: if the constraints of the manifest cannot be read
    """
    spec, was, known = proxy["spec"], chaperon.get("spec") or {}, told(chaperon)
    before = baseline.of(source, known)
    annotations = _annotations(proxy, before["annotations"], chaperon, known.get("annotations", {}))
    tolerated = was.get("tolerations") or ()
    found = {
        "labels": _labels(proxy, before, known.get("labels", {})),
        "annotations": {**annotations, **_files(proxy, before, annotations, chaperon, known)},
        "images": _by_container(spec, was, "image", known.get("images", {})),
        "resources": _by_container(spec, was, "resources", known.get("resources", {})),
        "podResources": _pod_resources(spec, was, known),
        "tolerations": others(admitted.added_tolerations(proxy, source), tolerated),
        "ephemeralContainers": _ephemeral(proxy, known.get("ephemeralContainers", ())),
        "gates": podconditions.gates(proxy, chaperon, known.get("gates", {})),
        "generation": _generation(proxy, known),
        **{key: known.get(key) for key in (baseline.KEY, baseline.BORN)},
    }
    if spec.get("activeDeadlineSeconds") != was.get("activeDeadlineSeconds"):
        found["activeDeadlineSeconds"] = spec.get("activeDeadlineSeconds")
    return {key: value for key, value in found.items() if value}


def told(chaperon: Mapping[str, Any]) -> Raw:
    """Return the live changes in a chaperon's annotation; {} if it has none or they cannot be parsed."""
    text = (chaperon["metadata"].get("annotations") or {}).get(names.ANNOTATION_LIVE_CHANGES)
    if not text:
        return {}
    try:
        found: Raw = {**_decode(text)}
    except (msgspec.DecodeError, RecursionError):
        return {}
    named = all(isinstance(each.get("name"), str) for each in found.get("ephemeralContainers", ()))
    return found if named else {}


def new_labels(proxy: Raw, changed: Raw, chaperon: Mapping[str, Any], cluster_uid: str) -> dict[str, str]:
    """Return labels that a chaperon of an earlier version, or of Admiralty, lacks; empty for other chaperons.

    They are not live changes, since an agent of an earlier version, after a downgrade, would revert those.

    :param changed: result of `changes`
    :param cluster_uid: UID of the local cluster, which chaperons of Admiralty lack
    """
    told = changed.get("labels", {})
    has = chaperon["metadata"].get("labels") or {}
    if has.get(names.LABEL_SERVING) == "true":
        return {}
    labels = baseline.labels(proxy)
    wanted = exact_labels({key: labels[key] for key in labels.keys() - names.LABELS_OF_NODE})
    wanted |= {names.LABEL_SERVING: "true", names.LABEL_PARENT_CLUSTER_UID: cluster_uid}
    return {key: value for key, value in wanted.items() if key not in told and has.get(key) != value}


def chaperon_patch(changed: Raw, chaperon: Mapping[str, Any], added: Mapping[str, str] | None = None) -> Raw:
    """Return the merge patch that writes the changes to a chaperon; {} if it has them already.

    :param added: labels that the chaperon lacks, from `new_labels`
    """
    patch = _told_patch(changed, chaperon)
    if not added:
        return patch
    metadata = patch.get("metadata") or {"uid": chaperon["metadata"]["uid"]}
    labels = {**metadata.get("labels", {}), **added}
    annotations = {**metadata.get("annotations", {}), delegates.ANNOTATION_NEW_LABELS: ""}
    return {"metadata": {**metadata, "labels": labels, "annotations": annotations}}


def missing_labels(changed: Raw, chaperon: Mapping[str, Any], pod: Mapping[str, Any]) -> dict[str, str] | None:
    """Return Flotilla's labels that a delegate still lacks; None if its chaperon has had none added.

    :param changed: live changes in the chaperon, which take precedence
    """
    metadata = chaperon["metadata"]
    if delegates.ANNOTATION_NEW_LABELS not in (metadata.get("annotations") or {}):
        return None
    told, has = changed.get("labels", {}), pod["metadata"].get("labels") or {}
    return {
        key: value
        for key, value in (metadata.get("labels") or {}).items()
        if key.startswith(names.SHORT_PREFIX) and key not in told and has.get(key) != value
    }


def _told_patch(changed: Raw, chaperon: Mapping[str, Any]) -> Raw:
    if changed == told(chaperon):
        return {}
    text = msgspec.json.encode(changed, order="deterministic").decode() if changed else None
    return {
        "metadata": {
            "uid": chaperon["metadata"]["uid"],
            "labels": changed.get("labels", {}),
            "annotations": {names.ANNOTATION_LIVE_CHANGES: text, **changed.get("annotations", {})},
        }
    }


def delegate_patch(changed: Raw, pod: Mapping[str, Any]) -> Raw:
    """Return a strategic merge patch for the delegate, without resources; {} if the delegate is up to date."""
    metadata = {
        field: {key: value for key, value in changed.get(field, {}).items() if _differs(pod, field, key, value)}
        for field in ("labels", "annotations")
    }
    spec: Raw = {
        name: [{"name": each, "image": image} for each, image in wanted.items()]
        for name, wanted in _per_list(changed.get("images", {}), pod, "image").items()
    }
    present = pod["spec"].get("tolerations") or []
    missing = others(changed.get("tolerations", ()), present)
    if missing:
        spec["tolerations"] = [*present, *missing]
    deadline = changed.get("activeDeadlineSeconds")
    if deadline is not None and pod["spec"].get("activeDeadlineSeconds") != deadline:
        spec["activeDeadlineSeconds"] = deadline
    metadata = {field: patch for field, patch in metadata.items() if patch}
    return {key: value for key, value in (("metadata", metadata), ("spec", spec)) if value}


def resize_patch(changed: Raw, pod: Mapping[str, Any]) -> Raw:
    """Return a strategic merge patch for the delegate's `resize` subresource (KEP-1287); {} if up to date."""
    spec: Raw = {
        name: [{"name": each, "resources": resources} for each, resources in wanted.items()]
        for name, wanted in _per_list(changed.get("resources", {}), pod, "resources").items()
    }
    whole = changed.get("podResources")
    if whole and pod["spec"].get("resources") != whole:
        spec["resources"] = whole
    return {"spec": spec} if spec else {}


def ephemeral_patch(changed: Raw, pod: Mapping[str, Any], ended: Collection[str]) -> Raw:
    """Return a strategic merge patch for the delegate's `ephemeralcontainers` subresource; {} if up to date.

    :param ended: names of containers that ran in an earlier delegate; they are never started again
    """
    there = {container["name"] for container in pod["spec"].get("ephemeralContainers") or ()}
    wanted = changed.get("ephemeralContainers", ())
    missing = [container for container in wanted if container["name"] not in there and container["name"] not in ended]
    return {"spec": {"ephemeralContainers": missing}} if missing else {}


def _generation(proxy: Raw, known: Raw) -> int | None:
    """Return the proxy pod's generation; None if its chaperon was created from this generation."""
    generation: int | None = proxy["metadata"].get("generation")
    return generation if "generation" in known or generation != known.get(baseline.BORN, 1) else None


def _ephemeral(proxy: Raw, known: Collection[Raw]) -> list[Raw]:
    """Return ephemeral containers as the target has them: Kubernetes never changes or removes them."""
    said = {container["name"]: container for container in known}
    every = proxy["spec"].get("ephemeralContainers") or ()
    added = delegate_containers((each for each in every if each["name"] not in said), proxy)
    said |= {container["name"]: container for container in added}
    return [said[container["name"]] for container in every]


def _labels(proxy: Raw, before: Raw, known: Raw) -> Raw:
    """Return labels to set or (None) to remove; the last result if the pod's regexp exceeds the work limit."""
    regexp = names.annotation(before["annotations"], names.NO_PREFIX_REGEXP)
    labels, withdrawn = baseline.labels(proxy), replacement.withdrawn(proxy["metadata"].get("annotations") or {})
    kept = {key: value for key, value in labels.items() if key not in withdrawn}
    try:
        now, was = (_arrive(each, regexp) for each in (kept, before["labels"]))
    except InvalidPattern:
        return known
    was[names.LABEL_SERVING] = "true"
    if names.LABEL_SERVING not in withdrawn:
        now[names.LABEL_SERVING] = "true"
    keys = sorted({*now, *was, *known})
    return {key: now.get(key) for key in keys if key in known or now.get(key) != was.get(key)}


def _arrive(labels: Mapping[str, str], regexp: str | None) -> dict[str, str]:
    """Return a pod's labels as the target has them, without labels that the pod may have from its node."""
    return labels_there({key: labels[key] for key in labels.keys() - names.LABELS_OF_NODE}, regexp)


def _annotations(proxy: Raw, original: Raw, chaperon: Mapping[str, Any], known: Raw) -> Raw:
    """Return annotations changed in the source; an annotation copied from the delegate is not a change."""
    mine, there = baseline.annotations(proxy), baseline.annotations(chaperon)
    return {
        key: mine.get(key)
        for key in sorted({*mine, *original, *known})
        if not names.is_ours(key) and (key in known or (mine.get(key) != original.get(key) == there.get(key)))
    }


def _files(proxy: Raw, before: Raw, changed: Raw, chaperon: Mapping[str, Any], known: Raw) -> dict[str, str]:
    """Return downward API files with all labels or annotations, without those copied from the delegate.

    They include labels that the proxy pod has from its node, as on a single cluster.
    """
    had: dict[str, str] = chaperon["metadata"].get("annotations") or {}
    if delegates.ANNOTATION_LABELS_FILE not in had and delegates.ANNOTATION_ANNOTATIONS_FILE not in had:
        return {}
    now = {key: value for key, value in {**before["annotations"], **changed}.items() if value is not None}
    said = known.get("annotations", {})
    kept = {
        key: said[key]
        for key in (delegates.ANNOTATION_LABELS_FILE, delegates.ANNOTATION_ANNOTATIONS_FILE)
        if key in said
    }
    return {**kept, **changed_files(had, baseline.labels(proxy), now)}


def _by_container(spec: Raw, was: Raw, field: str, known: Raw) -> Raw:
    """Return new values of a field by container; containers injected into only one of the two pods are ignored."""
    found: Raw = {}
    for name in _LISTS:
        before = {container["name"]: container.get(field) for container in was.get(name) or ()}
        for container in spec.get(name) or ():
            now = container.get(field)
            each = container["name"]
            if now and each in before and (each in known or now != before[each]):
                found[each] = now
    return found


def _pod_resources(spec: Raw, was: Raw, known: Raw) -> Raw:
    """Return the pod-level resources (KEP-5419) if they have changed."""
    now = spec.get("resources") or {}
    return now if "podResources" in known or now != (was.get("resources") or {}) else {}


def _differs(pod: Mapping[str, Any], field: str, key: str, value: str | None) -> bool:
    return bool((pod["metadata"].get(field) or {}).get(key) != value)


def _per_list(wanted: Raw, pod: Mapping[str, Any], field: str) -> dict[str, Raw]:
    """Return the wanted values that differ from the pod's, by container list and container."""
    found: dict[str, Raw] = {}
    for name in _LISTS:
        for container in pod["spec"].get(name) or ():
            value = wanted.get(container["name"])
            if value is not None and container.get(field) != value:
                found.setdefault(name, {})[container["name"]] = value
    return found
