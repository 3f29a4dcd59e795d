"""Reader of API servers' audit logs (audit.k8s.io/v1), limited to the fields that a soak needs."""

from collections.abc import Iterator
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import msgspec

_Read = TypeVar("_Read")
_BEGINNING = b'{"kind":"Event","apiVersion":"audit.k8s.io/'
_DELETIONS = ("delete", "deletecollection")


class Owner(msgspec.Struct, frozen=True):
    """An owner reference of an object."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """Metadata of an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    finalizers: list[str] | None = None
    owner_references: list[Owner] | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""
    scheduler_name: str = ""
    restart_policy: str = ""


class Condition(msgspec.Struct, frozen=True):
    """A condition of an object."""

    type: str = ""
    status: str = ""
    reason: str = ""


class _Status(msgspec.Struct, frozen=True):
    phase: str = ""
    reason: str = ""
    conditions: list[Condition] | None = None


class _Details(msgspec.Struct, frozen=True):
    uid: str = ""


class Answer(msgspec.Struct, frozen=True):
    """The object in a response: a pod, a node, a PodChaperon, a Status, or a list of them."""

    kind: str = ""
    metadata: Metadata = Metadata()
    spec: _Spec = _Spec()
    status: _Status | str = ""
    details: _Details | None = None
    items: list["Answer"] | None = None

    @property
    def state(self) -> _Status:
        """The status of an object; empty for a `Status`."""
        return self.status if isinstance(self.status, _Status) else _Status()


class _Options(msgspec.Struct, frozen=True, rename="camel"):
    grace_period_seconds: int | None = None


class _LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None


class _Lease(msgspec.Struct, frozen=True):
    spec: _LeaseSpec = _LeaseSpec()


class _User(msgspec.Struct, frozen=True):
    username: str = ""


class _Reference(msgspec.Struct, frozen=True):
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class _Code(msgspec.Struct, frozen=True):
    code: int = 0


class Line(msgspec.Struct, rename="camel", dict=True):
    """A request and its result."""

    verb: str
    request_received_timestamp: str
    stage_timestamp: str
    user: _User = _User()
    object_ref: _Reference = _Reference()
    response_status: _Code = _Code()
    request_object: msgspec.Raw = msgspec.Raw(b"{}")
    response_object: msgspec.Raw = msgspec.Raw(b"{}")
    uri: str = msgspec.field(name="requestURI", default="")

    @property
    def done(self) -> bool:
        """Whether the API server executed the request; False for a dry run."""
        return "dryRun=" not in self.uri and 200 <= self.response_status.code < 300

    @property
    def in_doubt(self) -> bool:
        """Whether the API server may have executed the request although it returned 504."""
        return "dryRun=" not in self.uri and self.response_status.code == 504

    @property
    def missing(self) -> bool:
        """Whether the object did not exist."""
        return self.response_status.code == 404

    @cached_property
    def received(self) -> float:
        """Time at which the API server received the request, in seconds since 1970."""
        return moment(self.request_received_timestamp)

    @cached_property
    def answered(self) -> float:
        """Time at which the API server answered, in seconds since 1970."""
        return moment(self.stage_timestamp)

    def answers(self) -> list[Answer]:
        """Return the objects in the response."""
        found = msgspec.json.decode(self.response_object, type=Answer)
        return [found] if found.items is None else found.items

    def at_once(self) -> bool:
        """Return whether the request deletes without a grace period."""
        asked = msgspec.json.decode(self.request_object, type=_Options) if self.verb in _DELETIONS else _Options()
        return asked.grace_period_seconds == 0

    def holder(self) -> str:
        """Return the holder that the request writes into a lease; empty if none."""
        return msgspec.json.decode(self.request_object, type=_Lease).spec.holder_identity or ""

    def told(self, cluster: str, uid: str = "") -> str:
        """Return a short text of the line for a report."""
        what = self.object_ref
        resource = f"{what.resource}/{what.subresource}" if what.subresource else what.resource
        time = self.stage_timestamp[11:23]
        mark = f" uid={uid}" if uid else ""
        who, code = self.user.username, self.response_status.code
        return f"{time} {cluster}: {self.verb} {resource} {what.name}{mark} by {who}: {code}"


_decoder = msgspec.json.Decoder(Line)


def read(directory: Path) -> Iterator[Line]:
    """Yield all lines of a cluster's audit log, oldest first. `directory` contains the log."""
    return read_as(_decoder, directory)


def read_as(decoder: msgspec.json.Decoder[_Read], directory: Path) -> Iterator[_Read]:
    """Yield all lines, decoded by `decoder`."""
    # The name of a rotated file contains its time; the current file comes last.
    for path in [*sorted(directory.glob("audit-*.log")), directory / "audit.log"]:
        with path.open("rb") as lines:
            for line in lines:
                found = _parse_as(decoder, line)
                if found is not None:
                    yield found


def parse(line: bytes) -> Line | None:
    """Return a line; None if it is incomplete. A killed API server leaves partial lines, directly before the
    next one.
    """
    return _parse_as(_decoder, line)


def _parse_as(decoder: msgspec.json.Decoder[_Read], line: bytes) -> _Read | None:
    begins = line.rfind(_BEGINNING)
    try:
        return decoder.decode(line[max(begins, 0) :])
    except msgspec.DecodeError:
        return None


def moment(timestamp: str) -> float:
    """Return the seconds since 1970."""
    return datetime.fromisoformat(timestamp).timestamp()
