"""Complete interface of controllers, the scheduler and the kubelet API to a target.

Each verb raises KubeError as `Client` does: Unreachable without an answer, StatusError for an error of the
target. The implementation is a connection to the target's API server (`push`). Objects are raw, and the few
kinds are those of `agent.api.roles`, so another implementation needs to support no more.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Literal, Protocol

from agent.api.kinds import Kind
from agent.kube.channel import Channel
from agent.kube.client import Objects, PatchBody, Raw, RawItems, Style
from agent.kube.errors import StatusError
from agent.kube.informer import Informer
from agent.kube.reading import Reduce
from agent.kube.streams import Answer, Query


class Port(Protocol):
    """Access to the objects of one cluster. Methods ending in `_raw` return bytes, for callers that do not
    decode them.
    """

    @property
    def name(self) -> str:
        """The cluster's name, for logs and messages."""
        ...

    @property
    def skew(self) -> float:
        """Seconds by which the cluster's clock was ahead of the local one at its last answer; negative if behind."""
        ...

    @property
    def insecure(self) -> str:
        """The kubeconfig field that leaves the API server unverified, with the remedy; empty if it is verified."""
        ...

    async def get(self, kind: Kind, name: str, namespace: str | None = None) -> Raw:
        """Read one object."""
        ...

    async def get_raw(self, kind: Kind, name: str, namespace: str | None = None, *, accept: str = "") -> bytes:
        """Read one object, in the format of the Accept header `accept`."""
        ...

    async def list(self, kind: Kind, namespace: str | None = None, *, labels: str = "", fields: str = "") -> Objects:
        """Read all objects that match."""
        ...

    async def list_raw(
        self, kind: Kind, namespace: str | None = None, *, labels: str = "", fields: str = "", accept: str = ""
    ) -> tuple[str, RawItems]:
        """Return the list's resource version and its items."""
        ...

    async def create(self, kind: Kind, obj: Raw, namespace: str | None = None, *, sub: str | None = None) -> Raw:
        """Create an object, or a subresource of it."""
        ...

    async def create_raw(self, kind: Kind, obj: Raw) -> bytes:
        """Create an object in its own namespace."""
        ...

    async def update_raw(self, kind: Kind, obj: Raw) -> bytes:
        """Replace an object; its resourceVersion guards against overwriting."""
        ...

    async def patch_raw(
        self,
        kind: Kind,
        name: str,
        body: PatchBody,
        namespace: str | None = None,
        *,
        sub: str | None = None,
        style: Style = "merge",
    ) -> bytes:
        """Change parts of an object, or a subresource of it."""
        ...

    async def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        version: str | None = None,
        propagation: Literal["Foreground", "Background", "Orphan"] | None = None,
    ) -> bytes:
        """Delete one object, if given only with this UID and version (else Conflict). Return empty if it is
        deleted at once.
        """
        ...

    def informer(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        reduce: Reduce | None = None,
    ) -> Informer:
        """Return the shared informer of a kind: a watch and its store."""
        ...

    def drop(self, informer: Informer) -> None:
        """Stop an informer that is no longer needed."""
        ...

    def spawn(self, name: str, run: Callable[[], Awaitable[None]]) -> Callable[[], None]:
        """Keep a task running until the connection is closed or the caller calls the returned function."""
        ...

    async def groups(self) -> frozenset[str]:
        """Return the API groups that are served."""
        ...

    async def git_version(self) -> str:
        """Return the version of Kubernetes."""
        ...

    async def newest(self, kind: Kind) -> Kind | None:
        """Return a kind in the newest served version, whichever version it names; None if it is not served."""
        ...

    async def can_create(self, kind: Kind) -> bool:
        """Return whether objects of a kind can be created: False if it is not served or its CRD is being deleted."""
        ...

    async def try_list(self, kind: Kind, namespace: str | None) -> None:
        """Request a list of one object. Raises NotFound if the kind is not served, Forbidden if it may not be
        listed.
        """
        ...

    async def lacking(self, namespace: str, asked: Sequence[tuple[Kind, str]]) -> Sequence[tuple[Kind, str]]:
        """Return the verbs for kinds that the agent lacks in a namespace (empty: in all)."""
        ...

    def has_said(self, error: StatusError) -> bool:
        """Return whether an error is this cluster's own answer."""
        ...

    async def connect(self) -> Channel:
        """Return a connection for one stream (`ask`). Raises Unsent."""
        ...

    async def ask(
        self,
        channel: Channel,
        method: str,
        path: str,
        query: Query,
        headers: Iterable[tuple[str, str]],
        *,
        resource: str,
        timeout: float | None,
    ) -> Answer:
        """Send a request for logs, exec, attach or port-forward, and read the head of the response."""
        ...
