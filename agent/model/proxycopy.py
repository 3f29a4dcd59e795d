"""Copies of proxy pods, as `kubectl debug --copy-to` makes them: what their user means is a pod like the original.

A copy has the proxy pod's spec under another name, and its annotations only if kubectl is told to keep them (older ones
always do). What the webhook did to the original is undone here, and what was changed or added while copying stays.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from agent.api import names
from agent.model import constraints, manifest

Raw = dict[str, Any]

_STATE = names.STATE_OF_PROXY | {names.ANNOTATION_MANIFEST, *names.STATE_OF_REPLACEMENT}


def is_same(pod: Mapping[str, Any], source: Mapping[str, Any]) -> bool:
    """Whether the manifest is this pod's own: pods whose names are generated have none yet when it is written."""
    mine, its = (each.get("metadata") or {} for each in (pod, source))
    generated = mine.get("generateName")
    return bool(
        (mine.get("name") or "") == (its.get("name") or "") or (generated and generated == its.get("generateName"))
    )


def original(copy: Raw, source: Raw | None, tolerations: Sequence[Raw]) -> Raw:
    """The elected pod that a copy of a proxy pod means, as its user would have written it.

    :param source: the pod that was copied as its user sent it; None where the copy does not tell, so that only the
        constraints of the proxy pod itself are known
    :param tolerations: those that every proxy pod has
    """
    metadata, spec = copy["metadata"], copy["spec"]
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key not in _STATE}
    if source is None:
        wanted = _constraints(spec, tolerations)
        if wanted:
            annotations[names.PREFIX + names.PROXY_CONSTRAINTS] = msgspec.json.encode(wanted).decode()
        source = {"spec": {}}
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != names.LABEL_HAS_FINALIZER}
    kept = {key: value for key, value in spec.items() if key not in manifest.TAKEN}
    taken = manifest.taken(source)
    return {**copy, "metadata": {**metadata, "labels": labels, "annotations": annotations}, "spec": kept | taken}


def _constraints(spec: Raw, tolerations: Sequence[Raw]) -> Raw:
    """By which a proxy pod was scheduled, without what all have."""
    wanted = {key: spec[key] for key in constraints.FIELDS if spec.get(key)}
    selector = {key: value for key, value in wanted.pop("nodeSelector", {}).items() if key != names.PROVIDER_KEY}
    tolerated = [each for each in wanted.pop("tolerations", ()) if each not in tolerations]
    wanted |= {key: value for key, value in (("nodeSelector", selector), ("tolerations", tolerated)) if value}
    return wanted
