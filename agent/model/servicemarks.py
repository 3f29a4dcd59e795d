"""Marks of shared Services: annotations and a label that the agent writes on them in the source, and removes."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from agent.api import names
from agent.api.names.links import AFFINITIES, AFFINITY, ANNOTATION_CILIUM_AFFINITY
from agent.model.relabel import relabel
from agent.model.service import (
    ELECTED,
    MARKS,
    Selector,
    can_be_shared,
    format_selector,
    is_native,
    is_shared,
    marks_of,
    regexp,
    users_selector,
)

Raw = dict[str, Any]


def is_switched(service: Mapping[str, Any]) -> bool:
    """Return whether the selector is exactly the one for delegates.

    :raises InvalidService, InvalidPattern: as `users_selector`
    """
    original = users_selector(service)
    return bool(original) and service["spec"]["selector"] == relabel(original, regexp(_annotations(service)))


def rerouted(service: Mapping[str, Any], *, switch: bool) -> Raw:
    """Return the Service with the annotations of a rerouted one. With `switch` its selector selects delegates, too.

    :raises InvalidService, InvalidPattern: as `users_selector`
    """
    original = users_selector(service)
    annotations = _without_cilium_affinity(service)
    selector = relabel(original, regexp(annotations)) if switch else original
    added = [key for key in MARKS if key not in annotations]
    marks = {
        names.ANNOTATION_ORIGINAL_SELECTOR: format_selector(original),
        names.ANNOTATION_MARKS: _list(marks_of(annotations) | set(added)),
        **dict.fromkeys(added, "true"),
    }
    return _changed(service, {**annotations, **marks}, selector=selector, label=True)


def native(service: Mapping[str, Any]) -> Raw:
    """Return a Service that selects proxy pods with the marks that share it, and with its user's selector.

    :raises InvalidService, InvalidPattern: as `users_selector`
    """
    annotations = _without_cilium_affinity(service)
    original = users_selector(service) if annotations.pop(names.ANNOTATION_ORIGINAL_SELECTOR, None) else None
    added = [key for key in MARKS if key not in annotations]
    ours = marks_of(service["metadata"].get("annotations") or {}) & annotations.keys()
    marks = {names.ANNOTATION_MARKS: _list({*ours, *added, ELECTED}), **dict.fromkeys(added, "true")}
    return _changed(service, {**annotations, **marks}, selector=original, label=True)


def restored(service: Mapping[str, Any]) -> Raw:
    """Return the Service as its user wrote it: without marks, and with the label only if its user shares it.

    :raises InvalidService, InvalidPattern: as `users_selector`
    """
    annotations = _annotations(service)
    ours = {*marks_of(annotations), names.ANNOTATION_ORIGINAL_SELECTOR, names.ANNOTATION_MARKS}
    rest = {key: value for key, value in annotations.items() if key not in ours}
    rerouted = names.ANNOTATION_ORIGINAL_SELECTOR in annotations
    selector = users_selector(service) or None if rerouted else None
    return _changed(service, rest, selector=selector, label=is_shared(rest))


def shared(service: Mapping[str, Any]) -> Raw:
    """Return the Service, not rerouted, with the marks of one that its namespace shares, unless its user shares it.

    :raises InvalidService, InvalidPattern: as `users_selector`
    """
    plain = restored(service)
    annotations = _annotations(plain)
    if is_shared(annotations) or not can_be_shared(plain):
        return plain
    added = [key for key in MARKS if key not in annotations]
    marks = {names.ANNOTATION_MARKS: _list(set(added)), **dict.fromkeys(added, "true")}
    return _changed(plain, {**annotations, **marks}, selector=None, label=True)


def with_cilium_affinity(service: Raw) -> Raw:
    """Return a Service from one of the functions above with its affinity in Cilium's annotation, too."""
    annotations = _annotations(service)
    affinity = names.annotation(annotations, AFFINITY)
    if affinity not in AFFINITIES or ANNOTATION_CILIUM_AFFINITY in annotations or not is_shared(annotations):
        return service
    words = (ELECTED,) if is_native(annotations) else ()
    marks = _list({*marks_of(annotations), *words, ANNOTATION_CILIUM_AFFINITY})
    metadata = service["metadata"]
    kept = {**annotations, ANNOTATION_CILIUM_AFFINITY: affinity, names.ANNOTATION_MARKS: marks}
    return {**service, "metadata": {**metadata, "annotations": kept}}


def _changed(service: Mapping[str, Any], annotations: dict[str, str], *, selector: Selector | None, label: bool) -> Raw:
    metadata = service["metadata"]
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != names.LABEL_GLOBAL}
    if label:
        labels[names.LABEL_GLOBAL] = "true"
    spec = dict(service["spec"])
    if selector is not None:
        spec["selector"] = selector
    changed = {**metadata, "annotations": annotations or None, "labels": labels or None}
    return {**service, "metadata": changed, "spec": spec}


def _list(keys: Iterable[str]) -> str:
    return msgspec.json.encode(sorted(keys)).decode()


def _without_cilium_affinity(service: Mapping[str, Any]) -> dict[str, str]:
    """Return the annotations without the affinity that the agent added, which may have changed."""
    annotations = _annotations(service)
    ours = ANNOTATION_CILIUM_AFFINITY in marks_of(annotations)
    return {key: value for key, value in annotations.items() if not (ours and key == ANNOTATION_CILIUM_AFFINITY)}


def _annotations(service: Mapping[str, Any]) -> dict[str, str]:
    return service["metadata"].get("annotations") or {}
