"""Labels and annotations of a proxy pod at the creation of its chaperon: the baseline for later changes.

Usually they equal those of the manifest. If other webhooks, or clients while the pod was pending, have changed them,
the chaperon is created with an annotation about the difference.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from agent.api import names
from agent.model.copies import travelling
from agent.model.diff import merge_patch

Raw = dict[str, Any]

KEY = "original"
"""Field of a chaperon's live-changes annotation: merge patch from the manifest's labels and annotations."""
BORN = "born"
"""Field of the same annotation: generation of the proxy pod when the chaperon was created; left out if it is 1."""
_REGEXP = (names.PREFIX + names.NO_PREFIX_REGEXP, names.SHORT_PREFIX + names.NO_PREFIX_REGEXP)


def labels(pod: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels of a proxy pod that its delegate gets, before they are rewritten."""
    found: dict[str, str] = pod["metadata"].get("labels") or {}
    return {
        key: value
        for key, value in found.items()
        if key != names.LABEL_HAS_FINALIZER and not key.startswith(names.SHORT_PREFIX)
    }


def annotations(pod: Mapping[str, Any]) -> dict[str, str]:
    """Return the annotations of a pod that its delegate gets."""
    return travelling(pod["metadata"].get("annotations"))


def note(proxy: Mapping[str, Any], source: Mapping[str, Any]) -> dict[str, str]:
    """Return the live-changes annotation of a new chaperon; {} if the proxy pod is as in the manifest."""
    before, now = _metadata(source), _metadata(proxy)
    noted: Raw = {KEY: merge_patch(before, now)} if before != now else {}
    generation = proxy["metadata"].get("generation") or 1
    if generation > 1:
        noted[BORN] = generation
    if not noted:
        return {}
    return {names.ANNOTATION_LIVE_CHANGES: msgspec.json.encode(noted, order="deterministic").decode()}


def of(source: Mapping[str, Any], told: Mapping[str, Any]) -> Raw:
    """Return the baseline of labels and annotations.

    :param source: the pod as its user sent it, from the manifest
    :param told: live changes that the chaperon records
    """
    found, noted = _metadata(source), told.get(KEY)
    for field in found:
        patch = noted.get(field) if isinstance(noted, dict) else None
        if isinstance(patch, dict):
            patched = {**found[field], **patch}
            found[field] = {key: value for key, value in patched.items() if isinstance(value, str)}
    return found


def _metadata(pod: Mapping[str, Any]) -> Raw:
    every: dict[str, str] = pod["metadata"].get("annotations") or {}
    settings = {key: every[key] for key in _REGEXP if key in every}
    return {"labels": labels(pod), "annotations": annotations(pod) | settings}
