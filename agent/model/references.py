"""ConfigMaps, Secrets, claims and the service account that a pod names, and needs in its cluster.

The content of its service account's token volume is excluded: each cluster adds its own (`kube-root-ca.crt` and
objects of its distribution).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import field

from agent.api.kinds import CONFIGMAPS, PERSISTENT_VOLUME_CLAIMS, SECRETS, SERVICE_ACCOUNTS, Kind
from agent.api.names import ANNOTATION_MANIFEST, SERVICE_ACCOUNT_MOUNT
from agent.model import manifest
from agent.model.accounttoken import is_of_admission
from agent.model.errors import InvalidPod

ROOT_CA = "kube-root-ca.crt"
"""Config map with the cluster's own certificate authority, which every namespace of every cluster has."""

LIMIT = 1000
"""Maximum number of ConfigMaps, Secrets and claims of a pod: the agent reads each for each target of the pod."""

References = dict[Kind, dict[str, bool]]
"""Names by kind, and whether each is optional in all places."""

_Found = tuple[Kind, str, bool]


class _Named(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    optional: bool | None = None


class _SecretVolume(msgspec.Struct, rename="camel", gc=False):
    secret_name: str = ""
    optional: bool | None = None


class _ClaimVolume(msgspec.Struct, rename="camel", gc=False):
    claim_name: str = ""


class _Token(msgspec.Struct, gc=False):
    audience: str = ""


class _Projection(msgspec.Struct, rename="camel", gc=False):
    service_account_token: _Token | None = None
    config_map: _Named | None = None
    secret: _Named | None = None


class _Projected(msgspec.Struct, gc=False):
    sources: list[_Projection] | None = None


class _Opened(msgspec.Struct, rename="camel", gc=False):
    """A volume whose storage system reads credentials from a Secret."""

    secret_ref: _Named | None = None
    node_publish_secret_ref: _Named | None = None
    secret_name: str = ""


class _Volume(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    config_map: _Named | None = None
    secret: _SecretVolume | None = None
    projected: _Projected | None = None
    persistent_volume_claim: _ClaimVolume | None = None
    csi: _Opened | None = None
    azure_file: _Opened | None = None
    cephfs: _Opened | None = None
    flex_volume: _Opened | None = None
    iscsi: _Opened | None = None
    rbd: _Opened | None = None
    scale_io: _Opened | None = field(default=None, name="scaleIO")
    storageos: _Opened | None = None


class _ValueFrom(msgspec.Struct, rename="camel", gc=False):
    config_map_key_ref: _Named | None = None
    secret_key_ref: _Named | None = None


class _Env(msgspec.Struct, rename="camel", gc=False):
    value_from: _ValueFrom | None = None


class _EnvFrom(msgspec.Struct, rename="camel", gc=False):
    config_map_ref: _Named | None = None
    secret_ref: _Named | None = None


class _Mount(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    mount_path: str = ""


class _Container(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    env: list[_Env] | None = None
    env_from: list[_EnvFrom] | None = None
    volume_mounts: list[_Mount] | None = None
    volume_devices: list[_Named] | None = None


class _Spec(msgspec.Struct, rename="camel", gc=False):
    volumes: list[_Volume] | None = None
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    ephemeral_containers: list[_Container] | None = None
    image_pull_secrets: list[_Named] | None = None
    service_account_name: str = ""


class _Annotations(msgspec.Struct, gc=False):
    manifest: str | None = field(default=None, name=ANNOTATION_MANIFEST)


class _Metadata(msgspec.Struct, gc=False):
    annotations: _Annotations | None = None


class _Pod(msgspec.Struct, gc=False):
    spec: _Spec
    metadata: _Metadata | None = None


_decoder = msgspec.json.Decoder(_Pod)


def references(pod: Mapping[str, Any] | bytes) -> References:
    """Return the objects that a pod (or chaperon) names, given as a dict or as JSON from an API server.

    They include image pull secrets of its service account: API servers write them into pods without any.

    :raises msgspec.ValidationError: if it does not have the shape of a pod
    """
    spec = _decoder.decode(pod).spec if isinstance(pod, bytes) else msgspec.convert({"spec": pod["spec"]}, _Pod).spec
    return _collected(spec)


def check(pod: Mapping[str, Any]) -> None:
    """Check that a pod names at most `LIMIT` objects.

    :raises InvalidPod: if it names more
    """
    try:
        count = sum(len(found) for found in references(pod).values())
    except msgspec.ValidationError:
        return  # The API server rejects it with its own message.
    if count > LIMIT:
        raise InvalidPod(
            "spec",
            f"it names {count} ConfigMaps, Secrets and claims, which follow the pod to its target, and {LIMIT} are"
            " allowed: put the content of several into one",
        )


def own_and_added(pod: bytes) -> tuple[References, References]:
    """Return objects that a pod's manifest names, and objects that only other webhooks' additions name.

    :raises msgspec.ValidationError: if it does not have the shape of a pod
    """
    read = _decoder.decode(pod)
    text = read.metadata.annotations.manifest if read.metadata and read.metadata.annotations else None
    known = manifest.names_in(text) if text is not None else None
    every = _collected(read.spec)
    if known is None:
        return every, {}
    own = _collected(_without_added(read.spec, *known))
    added = {
        kind: {name: found[name] for name in found.keys() - own.get(kind, {}).keys()} for kind, found in every.items()
    }
    return own, {kind: found for kind, found in added.items() if found}


def _without_added(spec: _Spec, containers: Collection[str], volumes: Collection[str]) -> _Spec:
    kept = [
        [each for each in found or () if each.name in containers] for found in (spec.containers, spec.init_containers)
    ]
    every = [*kept[0], *kept[1], *(spec.ephemeral_containers or ())]
    used = {each.name for container in every for each in (container.volume_mounts or ())}
    used |= {each.name for container in every for each in (container.volume_devices or ())}
    left = [each for each in spec.volumes or () if each.name in volumes or each.name in used]
    return msgspec.structs.replace(spec, containers=kept[0], init_containers=kept[1], volumes=left)


def _collected(spec: _Spec) -> References:
    found: References = {}
    for kind, name, optional in _all(spec):
        if name and not (kind is CONFIGMAPS and name == ROOT_CA):
            names = found.setdefault(kind, {})
            names[name] = names.get(name, True) and optional
    return found


def _all(spec: _Spec) -> Iterator[_Found]:
    containers = [
        *(spec.containers or ()),
        *(spec.init_containers or ()),
        *(spec.ephemeral_containers or ()),
    ]
    tokens = _token_volumes(spec.volumes or (), containers)
    for volume in spec.volumes or ():
        if volume.name not in tokens:
            yield from _of_volume(volume)
    for container in containers:
        yield from _of_container(container)
    for secret in spec.image_pull_secrets or ():
        # A pod starts without it: the image may be present, or need none.
        yield (SECRETS, secret.name, True)
    yield (SERVICE_ACCOUNTS, spec.service_account_name, False)


def _token_volumes(volumes: Iterable[_Volume], containers: list[_Container]) -> set[str]:
    """Return volumes of ServiceAccount admission that are mounted only at the usual path."""
    mounts = [mount for container in containers for mount in container.volume_mounts or ()]
    elsewhere = {mount.name for mount in mounts if mount.mount_path != SERVICE_ACCOUNT_MOUNT}
    return {each.name for each in volumes if is_of_admission(each.name, has_token=_has_token(each))} - elsewhere


def _has_token(volume: _Volume) -> bool:
    tokens = (each.service_account_token for each in (volume.projected.sources or ())) if volume.projected else ()
    return any(token is not None and not token.audience for token in tokens)


def _of_volume(volume: _Volume) -> Iterator[_Found]:
    if volume.config_map is not None:
        yield _found(CONFIGMAPS, volume.config_map)
    if volume.secret is not None:
        yield (SECRETS, volume.secret.secret_name, bool(volume.secret.optional))
    if volume.persistent_volume_claim is not None:
        yield (PERSISTENT_VOLUME_CLAIMS, volume.persistent_volume_claim.claim_name, False)
    for opened in _opened(volume):
        for secret in (opened.secret_ref, opened.node_publish_secret_ref, _Named(opened.secret_name)):
            if secret is not None:
                yield _found(SECRETS, secret)
    for source in (volume.projected.sources or ()) if volume.projected is not None else ():
        yield from _pair(source.config_map, source.secret)


def _opened(volume: _Volume) -> Iterator[_Opened]:
    systems = (
        volume.csi,
        volume.azure_file,
        volume.cephfs,
        volume.flex_volume,
        volume.iscsi,
        volume.rbd,
        volume.scale_io,
        volume.storageos,
    )
    return (each for each in systems if each is not None)


def _of_container(container: _Container) -> Iterator[_Found]:
    for variable in container.env or ():
        if variable.value_from is not None:
            yield from _pair(variable.value_from.config_map_key_ref, variable.value_from.secret_key_ref)
    for source in container.env_from or ():
        yield from _pair(source.config_map_ref, source.secret_ref)


def _pair(config_map: _Named | None, secret: _Named | None) -> Iterator[_Found]:
    if config_map is not None:
        yield _found(CONFIGMAPS, config_map)
    if secret is not None:
        yield _found(SECRETS, secret)


def _found(kind: Kind, named: _Named) -> _Found:
    return (kind, named.name, bool(named.optional))
