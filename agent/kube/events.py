"""Kubernetes Events, each written once: a repetition raises the count of the existing one."""

import asyncio
import hashlib
import logging
import time
from typing import Any, Literal

from agent.api.kinds import EVENTS, NAMESPACES
from agent.base.clock import Clock, stamp
from agent.kube.client import Client
from agent.kube.errors import AlreadyExists, Forbidden, KubeError

log = logging.getLogger(__name__)

REPEAT_SECONDS = 60.0
"""Minimum seconds between writes of the same event about the same object."""
_REMEMBERED = 2_000
"""Number of cached events; the count of others is read when they recur."""
_MESSAGE_LIMIT = 1024
_WAITING = 2_000
_TERMINATING = "because it is being terminated"
"""Part of the API server's message (kubernetes: plugin/pkg/admission/namespace/lifecycle)."""

Raw = dict[str, Any]

_Told = tuple[Raw, str, str, str]
"""The object as a reference: a queued manifest would take ten times the space."""


class Recorder:
    """Writes Events about objects of one cluster in the background: callers neither wait nor fail.

    Events that do not fit into the queue are dropped and counted in the log.
    """

    def __init__(self, client: Client, clock: Clock, component: str = "flotilla") -> None:
        self._client = client
        self._clock = clock
        self._component = component
        self._written: dict[str, tuple[float, int]] = {}
        self._queue: asyncio.Queue[_Told] = asyncio.Queue(_WAITING)

    def event(self, regarding: dict[str, Any], kind: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        """Record an event about an object (a manifest with apiVersion, kind and metadata)."""
        try:
            self._queue.put_nowait((_reference(regarding), kind, reason, message[:_MESSAGE_LIMIT]))
        except asyncio.QueueFull:
            log.warning("too many events: %s on %s dropped", reason, regarding["metadata"]["name"])

    async def run(self) -> None:
        """Write queued events until cancelled."""
        while True:
            await self._record(*await self._queue.get())

    async def _record(self, regarding: Raw, kind: str, reason: str, message: str) -> None:
        name = _name(regarding, reason, message)
        last, count = self._written.pop(name, (-REPEAT_SECONDS, 0))
        if time.monotonic() - last < REPEAT_SECONDS:
            self._written[name] = (last, count)
            return
        self._written[name] = (time.monotonic(), count + 1)
        if len(self._written) > _REMEMBERED:
            del self._written[next(iter(self._written))]
        try:
            try:
                await self._write(regarding, name, kind, reason, message, count + 1)
            except Forbidden as error:
                if _TERMINATING not in error.message:
                    raise
                # A namespace that is being deleted refuses new objects; its deletion is reported separately.
                about = f"{regarding['kind']} {regarding['name']}: {message}"
                await self._write(_namespace(regarding), name, kind, reason, about[:_MESSAGE_LIMIT], count + 1)
        except KubeError as error:
            about = f"{regarding['kind']} {regarding['name']}"
            log.warning("event %s on %s not written: %s", reason, about, error)

    async def _write(self, regarding: Raw, name: str, kind: str, reason: str, message: str, count: int) -> None:
        namespace = regarding["namespace"] or "default"
        now = stamp(self._clock.now())
        repeated: dict[str, Any] = {"lastTimestamp": now, "count": count}
        manifest = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": regarding,
            "type": kind,
            "reason": reason,
            "message": message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "firstTimestamp": now,
            **repeated,
        }
        try:
            await self._client.create_raw(EVENTS, manifest)
        except AlreadyExists:
            if count == 1:
                existing = await self._client.get(EVENTS, name, namespace)
                repeated["count"] = int(existing.get("count") or 1) + 1
                self._written[name] = (time.monotonic(), repeated["count"])
            await self._client.patch_raw(EVENTS, name, repeated, namespace)


def _namespace(regarding: Raw) -> Raw:
    """Return the namespace of an object as a reference; events about namespaces are in namespace `default`."""
    return {"apiVersion": "v1", "kind": NAMESPACES.name, "namespace": None, "name": regarding["namespace"]}


def _reference(manifest: dict[str, Any]) -> Raw:
    metadata = manifest["metadata"]
    return {
        "apiVersion": manifest["apiVersion"],
        "kind": manifest["kind"],
        "namespace": metadata.get("namespace"),
        "name": metadata["name"],
        "uid": metadata.get("uid"),
    }


def _name(regarding: Raw, reason: str, message: str) -> str:
    about = f"{regarding['uid']}/{reason}/{message}"
    # A cut may leave a dash or a dot at the end, but no part of a DNS name ends with one.
    return f"{regarding['name'][:200].rstrip('-.')}.{hashlib.sha256(about.encode()).hexdigest()[:16]}"
