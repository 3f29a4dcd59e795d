"""Promise 59: a tool that waits for a claim, such as Helm, continues once the claim's volume exists in a
target."""

import asyncio
import functools
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.api.kinds import NAMESPACES, PERSISTENT_VOLUME_CLAIMS, SERVICES, Kind
from agent.api.names import ELECT_BY_DEFAULT, SHORT_PREFIX
from tests.chart import helm
from tests.e2e import claims, manifests
from tests.e2e.fleet import Fleet
from tests.e2e.test_11_elect_by_default import elects, stock

pytestmark = pytest.mark.full("Needs Helm.")

Raw = dict[str, Any]

ATTACHMENTS = Kind("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False)
SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "db"}}
HEADLESS = {**SERVICE, "spec": {"clusterIP": "None", "selector": {"app": "db"}, "ports": [{"port": 5432}]}}


def chart(directory: Path, storage_class: str) -> Path:
    """Write a plain Helm chart: a database with a volume per replica, and a cache with a claim. Return its
    folder."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec["storageClassName"] = storage_class
    db = stock(manifests.stateful_set("db", 2))
    db["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": spec}]
    volume = {"name": "cache", "persistentVolumeClaim": {"claimName": "cache"}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "cache"}, "spec": spec}
    objects = (HEADLESS, db, claim, stock(manifests.deployment("cache", 1, volumes=[volume])))
    (directory / "templates").mkdir(parents=True)
    (directory / "Chart.yaml").write_text("apiVersion: v2\nname: shop\nversion: 1.0.0\n")
    for number, obj in enumerate(objects):
        (directory / "templates" / f"{number}.yaml").write_bytes(msgspec.json.encode(obj))
    return directory


async def test_helm_waits_for_a_chart_with_claims_no_longer_than_it_takes(
    fleet: Fleet, namespace: str, tmp_path: Path
) -> None:
    electing = {"metadata": {"annotations": {SHORT_PREFIX + ELECT_BY_DEFAULT: "true"}}}
    await fleet.source.patch(NAMESPACES, namespace, electing)
    await elects(fleet, namespace, True)
    async with claims.volumes(fleet, namespace):
        kubeconfig = fleet.sandbox["cd"].kubeconfig
        path, waiting = chart(tmp_path / "shop", namespace), ("--wait", "--timeout=120s", f"--namespace={namespace}")
        await asyncio.to_thread(helm.run, "install", "shop", str(path), *waiting, kubeconfig=kubeconfig)
        for name in ("cache", "data-db-0", "data-db-1"):
            await claims.bound(fleet, namespace, name)
        assert await fleet.source.list(ATTACHMENTS) == [], "nobody is asked to attach what stands for them"
        await asyncio.to_thread(helm.run, "uninstall", "shop", *waiting, kubeconfig=kubeconfig)
        for name in ("data-db-0", "data-db-1"):
            await fleet.source.delete(PERSISTENT_VOLUME_CLAIMS, name, namespace)
        gone = functools.partial(fleet.has_no_stand_ins, "cd", namespace)
        await fleet.until("what stood for their volumes is gone", gone, about=namespace)
        assert await fleet.source.list(SERVICES, namespace) == []
