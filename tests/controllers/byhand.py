"""The test plays the kubelet: delegates of a scheduler that does not run, on a node that does not exist."""

import contextlib
from typing import Any

from agent.api.kinds import PODS
from agent.kube.client import Client
from agent.kube.errors import NotFound
from tests.waiting import until

NOBODYS = {"schedulerName": "nobody"}
"""Fields of pods that no component of the cluster binds, runs or ends."""


async def bind(client: Client, namespace: str, name: str) -> None:
    """Bind a pod to a missing node of its own. kube-controller-manager/podgc removes all pods of a missing node
    40 s after it first saw one."""
    node = f"{namespace}-{name}"
    binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
    await client.create(PODS, binding, namespace, sub="binding")


async def start(client: Client, namespace: str, name: str) -> dict[str, Any]:
    """Bind a delegate as soon as it exists, and report it as running."""
    found = await until(lambda: client.get(PODS, name, namespace))
    await bind(client, namespace, name)
    await say(client, namespace, name, "Running")
    return found


async def say(client: Client, namespace: str, name: str, phase: str, code: int | None = None) -> None:
    """Write a pod's status as a kubelet does; `code` is the exit code of its container, None while that runs."""
    state = {"running": {}} if code is None else {"terminated": {"exitCode": code}}
    container = {"name": "main", "image": "busybox", "imageID": "", "ready": False, "restartCount": 0, "state": state}
    status = {"phase": phase, "containerStatuses": [container]}
    await client.patch(PODS, name, {"status": status}, namespace, sub="status")


async def remove(client: Client, namespace: str, name: str) -> None:
    """Remove a terminating pod that has ended, as its kubelet does.

    kube-controller-manager may have removed it before, since its node does not exist.
    """
    with contextlib.suppress(NotFound):
        await client.delete(PODS, name, namespace, grace=0)
