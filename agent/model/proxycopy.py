"""Copies of proxy pods, as created by `kubectl debug --copy-to`: their user wants a pod like the original.

A copy has the proxy pod's spec under another name. It has its annotations only with a kubectl option (older
versions always copy them). This module reverts the webhook's changes to the original, and keeps changes made
while copying.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from agent.api import names
from agent.model import constraints, manifest

Raw = dict[str, Any]

_STATE = names.STATE_OF_PROXY | {names.ANNOTATION_MANIFEST, *names.STATE_OF_REPLACEMENT}


def is_same(pod: Mapping[str, Any], source: Mapping[str, Any]) -> bool:
    """Return whether the manifest is this pod's own; a generated name is not in the manifest yet."""
    mine, its = (each.get("metadata") or {} for each in (pod, source))
    generated = mine.get("generateName")
    return bool(
        (mine.get("name") or "") == (its.get("name") or "") or (generated and generated == its.get("generateName"))
    )


def original(copy: Raw, source: Raw | None, tolerations: Sequence[Raw]) -> Raw:
    """Return the elected pod that a copy of a proxy pod represents, as its user would have written it.

    :param source: the copied pod as its user sent it; None if the copy has no manifest, then only the constraints
        of the proxy pod are known
    :param tolerations: tolerations of every proxy pod
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
    """Return a proxy pod's scheduling constraints, without those of every proxy pod."""
    wanted = {key: spec[key] for key in constraints.FIELDS if spec.get(key)}
    selector = {key: value for key, value in wanted.pop("nodeSelector", {}).items() if key != names.PROVIDER_KEY}
    tolerated = [each for each in wanted.pop("tolerations", ()) if each not in tolerations]
    wanted |= {key: value for key, value in (("nodeSelector", selector), ("tolerations", tolerated)) if value}
    return wanted
