"""Signs of life that sources leave in a target: annotations of one Lease, which the target's agent creates. Pure.

A source records once a minute, with its own UID, that it lives: under a key of its ServiceAccount, which no other
account may write (`agent.api.heartbeat_policies`), and under one that any source may write, which older releases
read. One Lease for all sources needs rights on one name only, which roles can list.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

import msgspec

from agent.api import names
from agent.api.heartbeat_policies import SHARED_AT_MOST

_ACCOUNT = "system:serviceaccount:"
_ACCOUNT_UID = re.compile(r"[0-9a-f]([-0-9a-f]{0,61}[0-9a-f])?")
_NAME_LIMIT = 350
"""Characters of a user name; those of a ServiceAccount with the longest names of namespace and account are fewer."""
_NAME_SHOWN = 63


class Account(NamedTuple):
    """ServiceAccount as whom a source is known to a target; empty texts for a user of another kind, or an unknown."""

    name: str = ""
    """User name: `system:serviceaccount:NAMESPACE:NAME`."""
    uid: str = ""

    @property
    def namespace(self) -> str:
        """Namespace of the account in the target."""
        return self.name.removeprefix(_ACCOUNT).partition(":")[0]


NOBODY = Account()


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""


class _Status(msgspec.Struct, rename="camel"):
    user_info: _User = msgspec.field(default_factory=_User)


class _Review(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


def account_of(review: object) -> Account:
    """Return the account that a SelfSubjectReview names; an empty one if it names none, or cannot be read."""
    try:
        username, uid = msgspec.structs.astuple(msgspec.convert(review, _Review).status.user_info)
    except msgspec.ValidationError:
        return NOBODY
    known = username.startswith(_ACCOUNT) and len(username) <= _NAME_LIMIT and _ACCOUNT_UID.fullmatch(uid)
    return Account(username, uid) if known else NOBODY


class Sign(msgspec.Struct, frozen=True):
    """One sign of a source."""

    seen: datetime
    """Time of the sign, by the clock of the source."""
    holder: str = ""
    """Name of the agent that leads in the source; each makes it up when it begins to lead."""
    name: str = ""
    """Name of the cluster, for people."""
    account: str = ""
    """User name of the ServiceAccount that wrote it; empty under keys that any source may write."""

    @property
    def namespace(self) -> str:
        """Namespace of the account."""
        return Account(self.account).namespace


_decoder = msgspec.json.Decoder(Sign)
_SHARED = names.sign("")


def read(annotations: Mapping[str, str] | None) -> dict[str, Sign]:
    """Return the latest sign of each source by UID; a key of an account counts before one that all may write."""
    ordered = sorted(_signs(annotations), key=lambda each: (bool(each[2].account), each[2].seen))
    return {uid: sign for uid, _, sign in ordered}


def of_source(annotations: Mapping[str, str] | None, uid: str) -> dict[str, Sign]:
    """Return all signs with the UID of a source, by key."""
    return {key: sign for found, key, sign in _signs(annotations) if found == uid}


def keys_of(annotations: Mapping[str, str] | None, uid: str) -> list[str]:
    """Return all keys with the UID of a source, also of signs that cannot be read."""
    return [key for key in annotations or {} if _uid(key) == uid]


def patch(
    uid: str, sign: Sign, version: str, account: Account = NOBODY, others: Mapping[str, str] | None = None
) -> dict[str, object]:
    """Return the merge patch that gives a sign, for this version of the Lease.

    :param others: annotations that the Lease has: a new key that all may write is left out if there are too many
    """
    sign = msgspec.structs.replace(sign, name=sign.name[:_NAME_SHOWN])
    shared = [key for key in others or {} if key.startswith(_SHARED)]
    written = {}
    if not account.uid or names.sign(uid) in shared or len(shared) < SHARED_AT_MOST:
        written[names.sign(uid)] = _encode(sign)
    if account.uid:
        written[names.sign(uid, account.uid)] = _encode(msgspec.structs.replace(sign, account=account.name))
    return {"metadata": {"resourceVersion": version, "annotations": written}}


def _encode(sign: Sign) -> str:
    return msgspec.json.encode({key: value for key, value in msgspec.structs.asdict(sign).items() if value}).decode()


def _uid(key: str) -> str | None:
    account, shared, uid = key.partition(_SHARED)
    return uid if shared and (not account or account.endswith(".")) else None


def _signs(annotations: Mapping[str, str] | None) -> Iterator[tuple[str, str, Sign]]:
    """Yield UID of the source, key and sign; one that cannot be read is none."""
    for key, text in (annotations or {}).items():
        uid = _uid(key)
        if uid is None:
            continue
        try:
            sign = _decoder.decode(text)
        except msgspec.DecodeError:
            continue
        # Whoever writes a key of no account may claim any.
        sign = sign if not key.startswith(_SHARED) else msgspec.structs.replace(sign, account="")
        if sign.seen.tzinfo is not None:
            yield uid, key, sign
