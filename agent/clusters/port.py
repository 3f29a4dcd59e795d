"""What controllers, the scheduler and the kubelet API ask of a target, however it is reached: no more, and nothing
else.

Each verb raises KubeError as `Client` does: Unreachable where no answer came, StatusError for what the target says.
Behind it is a connection to the target's API server (`push`). Objects are raw, and the few kinds are those of
`agent.api.roles`: a target that is reached otherwise has to know no more.
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
    """Objects of one cluster. Methods ending in `_raw` give bytes, for callers that do not look inside."""

    @property
    def name(self) -> str:
        """The cluster's name, for logs and messages."""
        ...

    @property
    def skew(self) -> float:
        """By how many seconds the cluster's clock was ahead of ours at its last answer."""
        ...

    @property
    def insecure(self) -> str:
        """The kubeconfig field that leaves the API server unverified, with the remedy; empty if it is verified."""
        ...

    async def get(self, kind: Kind, name: str, namespace: str | None = None) -> Raw:
        """Read one object."""
        ...

    async def get_raw(self, kind: Kind, name: str, namespace: str | None = None, *, accept: str = "") -> bytes:
        """Read one object, in the form that `accept` asks for."""
        ...

    async def list(self, kind: Kind, namespace: str | None = None, *, labels: str = "", fields: str = "") -> Objects:
        """Read all objects that match."""
        ...

    async def list_raw(
        self, kind: Kind, namespace: str | None = None, *, labels: str = "", fields: str = "", accept: str = ""
    ) -> tuple[str, RawItems]:
        """The list's resource version and its items."""
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
        """Delete one object, only with this UID and version when given (else Conflict); empty if it is gone by this."""
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
        """The shared informer of a kind: a watch and its store."""
        ...

    def drop(self, informer: Informer) -> None:
        """Stop an informer that nobody needs any more."""
        ...

    def spawn(self, name: str, run: Callable[[], Awaitable[None]]) -> Callable[[], None]:
        """Keep a task running for as long as the connection lives, or until what is returned is called."""
        ...

    async def groups(self) -> frozenset[str]:
        """The API groups that are served."""
        ...

    async def git_version(self) -> str:
        """The version of Kubernetes."""
        ...

    async def newest(self, kind: Kind) -> Kind | None:
        """A kind in the newest version that is served, whichever it names; None where it is not served."""
        ...

    async def try_list(self, kind: Kind, namespace: str | None) -> None:
        """Ask for one object. Raises NotFound where the kind is not served, Forbidden where we may not list it."""
        ...

    async def lacking(self, namespace: str, asked: Sequence[tuple[Kind, str]]) -> Sequence[tuple[Kind, str]]:
        """Which of some verbs for kinds in a namespace (empty: in all) we are not allowed there."""
        ...

    def has_said(self, error: StatusError) -> bool:
        """Whether an error is this cluster's own answer."""
        ...

    async def connect(self) -> Channel:
        """A connection for one stream (`ask`). Raises Unsent."""
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
        """Put a request for logs, exec, attach or port-forward, and read the head of the answer."""
        ...
