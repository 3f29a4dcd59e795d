"""The manifest annotation of proxy pods: the whole pod as the webhook found it, for whoever reads the wire contract.

Admission has not seen what it says, so that it counts for little here: for the fields that the webhook itself changed
on the pod, and for which containers and volumes were there before other webhooks added theirs.
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
"""Fields of a pod spec that the webhook changes: what they were before is in the manifest alone."""

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
    """The fields that count, and those by which pods are told apart."""

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
    """The manifest of a pod: JSON, which is YAML, too (ruling 7).

    Annotations of clients stay on the proxy pod: `kubectl apply` writes the whole manifest into one.
    """
    metadata = {key: value for key, value in (pod.get("metadata") or {}).items() if key != "managedFields"}
    if metadata.get("annotations"):
        kept = {key: value for key, value in metadata["annotations"].items() if not is_of_client(key)}
        metadata["annotations"] = kept
    return msgspec.json.encode({"apiVersion": "v1", "kind": "Pod", **pod, "metadata": metadata}).decode()


def fitting(pod: Raw, annotations: Mapping[str, str]) -> str:
    """The manifest of a pod, or a brief one where it does not fit beside annotations."""
    text = of(pod)
    return text if size({**annotations, names.ANNOTATION_MANIFEST: text}) <= LIMIT else of(_brief(pod))


def _brief(pod: Raw) -> Raw:
    """Return a pod whose containers lack what its proxy pod has anyway, for manifests that would be too large."""
    spec = pod.get("spec") or {}
    lists = {
        field: [{key: each[key] for key in _BRIEF if key in each} for each in spec[field]]
        for field in ("containers", "initContainers")
        if spec.get(field)
    }
    return {**pod, "spec": {**spec, **lists}}


def source_pod(proxy: Mapping[str, Any]) -> Raw:
    """The pod as its user sent it, from the manifest annotation of its proxy pod.

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
    """What the webhook took away from a pod's spec."""
    spec = source["spec"]
    return {key: spec[key] for key in TAKEN if spec.get(key) is not None}


def known_names(source: Mapping[str, Any]) -> tuple[set[str], set[str]]:
    """Names of the containers, and of the volumes, that were there before other webhooks added theirs."""
    spec = source["spec"]
    containers = {each["name"] for field in ("containers", "initContainers") for each in spec.get(field) or ()}
    return containers, {each["name"] for each in spec.get("volumes") or ()}


def names_in(text: str) -> tuple[set[str], set[str]] | None:
    """The same of a manifest that is JSON; None of any other, as Admiralty writes them."""
    try:
        spec = _decoder.decode(text).spec
    except (msgspec.DecodeError, RecursionError):
        return None
    containers = {each.name for each in (*spec.containers, *(spec.init_containers or ()))}
    return containers, {each.name for each in spec.volumes or ()}


def check_containers(source: Mapping[str, Any], spec: Mapping[str, Any]) -> None:
    """See to it that a pod has a container that its manifest names.

    :raises InvalidPod: if it has none, and nothing of it would travel
    """
    known, _ = known_names(source)
    if not any(each["name"] in known for each in spec.get("containers") or ()):
        raise InvalidPod(FIELD, "it names none of the containers of the pod: create the pod again without it")
