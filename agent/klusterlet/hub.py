"""Connection to the hub that a Secret of the agent's namespace describes, with the keys of Open Cluster Management.

Watches  that Secret, and the ManifestWorks of this cluster in the hub.
The Secret's kubeconfig may name its other keys as files. A changed Secret replaces the connection; an invalid one keeps
the connection before and is reported by an event.
"""

import asyncio
import base64
import binascii
import hashlib
import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

from agent.api.kinds import MANIFEST_WORKS, SECRETS
from agent.base.listeners import tell
from agent.clusters.cluster import Cluster
from agent.clusters.deps import Deps
from agent.kube import kubeconfig as documents
from agent.kube.config import Connection, of_document
from agent.kube.errors import InvalidConfig
from agent.kube.store import Key, Object
from agent.kube.subscribers import Subscriber
from agent.runtime.controller import Controller

log = logging.getLogger(__name__)

KUBECONFIG, CLUSTER_NAME, AGENT_NAME = "kubeconfig", "cluster-name", "agent-name"
_DASH = "-"


class Access(NamedTuple):
    """Contents of the Secret."""

    connection: Connection
    cluster: str
    """Name of this cluster in the hub."""
    agent: str
    """Identity of this agent; empty if the Secret has none."""

    @property
    def hash(self) -> str:
        """Digest of the hub's address."""
        return hashlib.sha256(self.connection.server.encode()).hexdigest()


class Connected:
    """The hub while it is connected."""

    def __init__(self, access: Access, deps: Deps) -> None:
        self._cluster = Cluster(access.connection, "hub", timeout=deps.settings.request_timeout)
        self.client = self._cluster.client
        self.namespace = access.cluster
        self.hash = access.hash
        self.agent_id = access.agent or access.hash
        self.works = self._cluster.informer(MANIFEST_WORKS, access.cluster)
        self.spawn = self._cluster.supervisor.spawn
        self.close = self._cluster.close

    @property
    def is_read(self) -> bool:
        """Whether all ManifestWorks have been listed once."""
        return self.works.synced.is_set()

    @property
    def is_current(self) -> bool:
        """Whether the cached ManifestWorks are up to date, so that the hub lacks one that is not cached."""
        return self.is_read and self.works.error is None and not self.works.relisting

    def applied_name(self, work: str) -> str:
        """Return the name of a ManifestWork's AppliedManifestWork."""
        return self.hash + _DASH + work

    def work(self, applied: str) -> Object | None:
        """Return the ManifestWork of an AppliedManifestWork; None if it does not exist, or is another hub's."""
        start = self.hash + _DASH
        name = applied.removeprefix(start) if applied.startswith(start) else ""
        return self.works.store.get((self.namespace, name)) if name else None


class HubController(Controller[Key]):
    """Keeps the connection to the hub. Keys are that of the Secret."""

    name = "hub-connection"
    workers = 1

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._key = (deps.home, deps.settings.hub_secret)
        self._secrets = deps.local.informer(SECRETS, deps.home, fields=f"metadata.name={deps.settings.hub_secret}")
        self._known: Mapping[str, str] | None = None
        self._changed: list[Subscriber] = []
        self._turned: list[Callable[[], None]] = []
        self.current: Connected | None = None
        """The hub; None until the Secret has been read."""
        self.watch(self._secrets, lambda secret: [secret.key])

    def subscribe(self, changed: Subscriber, turned: Callable[[], None]) -> None:
        """Call `changed` for each changed ManifestWork, and `turned` when all have been read or the hub changes."""
        self._changed.append(changed)
        self._turned.append(turned)

    async def run(self) -> None:
        """Keep the connection until cancelled."""
        try:
            await super().run()
        finally:
            if self.current is not None:
                await self.current.close()

    async def reconcile(self, key: Key) -> float | None:
        """Connect to the hub if the Secret has changed."""
        secret = self._secrets.store.get(self._key)
        data: Mapping[str, str] = (secret.decode().get("data") or {}) if secret is not None else {}
        if data == self._known:
            return None
        try:
            access = await asyncio.to_thread(read, data) if secret is not None else None
        except InvalidConfig as error:
            message = f"the hub cannot be used: {error}"
            log.warning("Secret %s/%s: %s", *self._key, message)
            if secret is not None:
                self._deps.recorder.event(secret.decode(), "Warning", "HubKubeconfigInvalid", message)
            return None
        self._known, before = data, self.current
        self.current = None
        if before is not None:
            await before.close()
        if access is not None:
            self._connect(access)
        return None

    def _connect(self, access: Access) -> None:
        self.current = hub = Connected(access, self._deps)
        for changed in self._changed:
            hub.works.subscribe(changed)
        hub.spawn("first list of ManifestWorks", lambda: self._tell(hub))

    async def _tell(self, hub: Connected) -> None:
        await hub.works.synced.wait()
        tell(self._turned)


def read(data: Mapping[str, str]) -> Access:
    """Return the contents of a Secret.

    :raises InvalidConfig: if it cannot be used
    """
    values = {key: _decoded(key, value) for key, value in data.items()}
    for key in (KUBECONFIG, CLUSTER_NAME):
        if not values.get(key, b"").strip():
            raise InvalidConfig(f"key {key!r} is missing or empty: join the hub again")
    document = documents.document_of(values[KUBECONFIG])
    documents.embed(document, values)
    names = [values.get(key, b"").decode(errors="replace").strip() for key in (CLUSTER_NAME, AGENT_NAME)]
    return Access(of_document(document), *names)


def _decoded(key: str, value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidConfig(f"key {key!r} is no base64") from error
