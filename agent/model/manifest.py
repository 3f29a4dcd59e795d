"""The manifest annotation of proxy pods: the pod as the webhook received it, as the wire contract defines it.

Admission has not checked its content, so Flotilla uses little of it: fields that the webhook itself changed,
and the names of containers and volumes before other webhooks added theirs.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from agent.api import names
from agent.api.labels import is_of_client
from agent.model import constraints, json_or_yaml
from agent.model.annotations import LIMIT, size
from agent.model.errors import InvalidPod

Raw = dict[str, Any]

FIELD = f"metadata.annotations[{names.ANNOTATION_MANIFEST}]"
TAKEN = (*constraints.FIELDS, "schedulerName", "terminationGracePeriodSeconds")
"""Fields of a pod spec that the webhook changes: only the manifest has their original values."""

_BRIEF = ("name", "image", "resources")
"""Fields of a container that every manifest has."""
_REMEDY = "remove it, the webhook writes it"


class _Named(msgspec.Struct, gc=False):
    name: str


class _Metadata(msgspec.Struct, rename="camel", gc=False):
    name: str | None = None
    generate_name: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Spec(msgspec.Struct, rename="camel", gc=False):
    """Fields in use, and fields that identify a pod."""

    containers: list[_Named]
    init_containers: list[_Named] | None = None
    volumes: list[_Named] | None = None
    scheduler_name: str | None = None
    termination_grace_period_seconds: int | None = None


class _Pod(msgspec.Struct, gc=False):
    spec: _Spec
    metadata: _Metadata | None = None
    kind: str = "Pod"


_decoder = msgspec.json.Decoder(_Pod)


def of(pod: Raw) -> str:
    """Return the manifest of a pod as JSON, which is also valid YAML (ruling 7).

    Omit annotations of clients, which stay on the proxy pod: `kubectl apply` writes the whole manifest into one.
    """
    metadata = {key: value for key, value in (pod.get("metadata") or {}).items() if key != "managedFields"}
    if metadata.get("annotations"):
        kept = {key: value for key, value in metadata["annotations"].items() if not is_of_client(key)}
        metadata["annotations"] = kept
    return msgspec.json.encode({"apiVersion": "v1", "kind": "Pod", **pod, "metadata": metadata}).decode()


def fitting(pod: Raw, annotations: Mapping[str, str]) -> str:
    """Return the manifest of a pod, or a brief one if the full one exceeds the size limit of annotations."""
    text = of(pod)
    return text if size({**annotations, names.ANNOTATION_MANIFEST: text}) <= LIMIT else of(_brief(pod))


def _brief(pod: Raw) -> Raw:
    """Return a pod without most container fields, which its proxy pod has, too, to make its manifest smaller."""
    spec = pod.get("spec") or {}
    lists = {
        field: [{key: each[key] for key in _BRIEF if key in each} for each in spec[field]]
        for field in ("containers", "initContainers")
        if spec.get(field)
    }
    return {**pod, "spec": {**spec, **lists}}


def source_pod(proxy: Mapping[str, Any]) -> Raw:
    """Return the pod as its user sent it, from the manifest annotation of its proxy pod.

    :raises InvalidPod: if there is no manifest, or it is not one of a pod
    """
    text = (proxy.get("metadata", {}).get("annotations") or {}).get(names.ANNOTATION_MANIFEST)
    if text is None:
        raise InvalidPod(
            FIELD, "there is no manifest of the source pod: the pod was not made by the webhook; create it again"
        )
    try:
        source = json_or_yaml.read(text)
    except json_or_yaml.InvalidDocument as error:
        raise InvalidPod(FIELD, f"is neither JSON nor YAML: {error}; {_REMEDY}") from error
    try:
        pod = msgspec.convert(source, _Pod)
        source["spec"].update(constraints.of(source["spec"]))
    except (msgspec.ValidationError, RecursionError) as error:
        raise InvalidPod(FIELD, f"is not the manifest of a pod: {error}; {_REMEDY}") from error
    if pod.kind != "Pod" or not pod.spec.containers:
        raise InvalidPod(FIELD, f"is not the manifest of a pod with containers; {_REMEDY}")
    return source if source.get("metadata") else {**source, "metadata": {}}


def taken(source: Mapping[str, Any]) -> Raw:
    """Return the fields of a pod's spec that the webhook changes, with their original values."""
    spec = source["spec"]
    return {key: spec[key] for key in TAKEN if spec.get(key) is not None}


def known_names(source: Mapping[str, Any]) -> tuple[set[str], set[str]]:
    """Return names of the containers and volumes that the pod had before other webhooks added theirs."""
    spec = source["spec"]
    containers = {each["name"] for field in ("containers", "initContainers") for each in spec.get(field) or ()}
    return containers, {each["name"] for each in spec.get("volumes") or ()}


def names_in(text: str) -> tuple[set[str], set[str]] | None:
    """Return the same names for a JSON manifest; None for any other, such as Admiralty's."""
    try:
        spec = _decoder.decode(text).spec
    except (msgspec.DecodeError, RecursionError):
        return None
    containers = {each.name for each in (*spec.containers, *(spec.init_containers or ()))}
    return containers, {each.name for each in spec.volumes or ()}


def check_containers(source: Mapping[str, Any], spec: Mapping[str, Any]) -> None:
    """Check that the manifest names at least one of the pod's containers.

    :raises InvalidPod: if it names none: the delegate would have no container
    """
    known, _ = known_names(source)
    if not any(each["name"] in known for each in spec.get("containers") or ()):
        raise InvalidPod(FIELD, "it names none of the containers of the pod: create the pod again without it")
