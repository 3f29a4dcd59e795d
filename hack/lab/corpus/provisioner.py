"""Provisioner for every storage class of a cluster; no kubelet can mount its volumes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from agent.api.kinds import PERSISTENT_VOLUME_CLAIMS, Kind
from agent.kube.client import Client
from agent.kube.errors import AlreadyExists, KubeError, NotFound
from hack.lab.corpus.contents import VOLUMES
from hack.lab.sandbox.objects import apply

Raw = dict[str, Any]

CLASSES = Kind("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
CLASS = "corpus-standard"
PROVISIONER = "corpus.flotilla/none"
_PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_NOBODY = "kubernetes.io/no-provisioner"
_PAUSE = 0.4


def standard_class() -> Raw:
    """Return the default storage class, which creates a volume after the claim's pod has a node."""
    return {
        "apiVersion": CLASSES.api_version,
        "kind": CLASSES.name,
        "metadata": {"name": CLASS, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": PROVISIONER,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


@contextlib.asynccontextmanager
async def provisioning(client: Client) -> AsyncIterator[None]:
    """Create volumes for claims, and delete them with their claims, while the context lasts."""
    await apply(client, CLASSES, standard_class())
    task = asyncio.ensure_future(_run(client))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        with contextlib.suppress(KubeError):
            await client.delete(CLASSES, CLASS)


async def _run(client: Client) -> None:
    while True:
        with contextlib.suppress(KubeError):
            await _once(client)
        await asyncio.sleep(_PAUSE)


async def _once(client: Client) -> None:
    classes = {each["metadata"]["name"]: each for each in await client.list(CLASSES)}
    volumes = {each["metadata"]["name"]: each for each in await client.list(VOLUMES)}
    for claim in await client.list(PERSISTENT_VOLUME_CLAIMS):
        made = volume_of(claim, classes)
        if made is not None and made["metadata"]["name"] not in volumes:
            with contextlib.suppress(AlreadyExists):
                await client.create(VOLUMES, made)
    for name, each in volumes.items():
        ours = (each["metadata"].get("annotations") or {}).get(_PROVISIONED_BY) == PROVISIONER
        if ours and each.get("status", {}).get("phase") in ("Released", "Failed"):
            with contextlib.suppress(NotFound):
                await client.delete(VOLUMES, name)


def volume_of(claim: Raw, classes: dict[str, Raw]) -> Raw | None:
    """Return the volume for a claim; None if it has one, or has to wait for a pod. Pure."""
    spec, metadata = claim["spec"], claim["metadata"]
    storage_class = classes.get(spec.get("storageClassName") or "")
    if storage_class is None or spec.get("volumeName") or "deletionTimestamp" in metadata:
        return None
    waits = storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"
    if storage_class["provisioner"] == _NOBODY or (waits and _SELECTED_NODE not in (metadata.get("annotations") or {})):
        return None
    return {
        "metadata": {"name": f"pvc-{metadata['uid']}", "annotations": {_PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "capacity": spec["resources"]["requests"],
            "accessModes": spec["accessModes"],
            "volumeMode": spec.get("volumeMode", "Filesystem"),
            "storageClassName": spec["storageClassName"],
            "persistentVolumeReclaimPolicy": "Delete",
            "hostPath": {"path": "/none"},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
        },
    }
