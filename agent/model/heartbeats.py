"""Heartbeats of sources in a target: annotations of one Lease, which the target's agent creates. Pure.

Once a minute each source writes a heartbeat with its UID under two keys. One contains its ServiceAccount, and no other
account may write it (`agent.api.heartbeat_policies`). The other is shared by all sources, and older releases read it.
One Lease for all sources needs rights on a single name, which a Role can list.
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
"""Maximum characters of a user name; ServiceAccounts with the longest possible names have fewer."""
_NAME_SHOWN = 63


class Account(NamedTuple):
    """ServiceAccount that a source uses in a target; both fields are empty for another kind of user or if unknown."""

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
    """Return the ServiceAccount in a SelfSubjectReview; an empty Account if it has none or is invalid."""
    try:
        username, uid = msgspec.structs.astuple(msgspec.convert(review, _Review).status.user_info)
    except msgspec.ValidationError:
        return NOBODY
    known = username.startswith(_ACCOUNT) and len(username) <= _NAME_LIMIT and _ACCOUNT_UID.fullmatch(uid)
    return Account(username, uid) if known else NOBODY


class Sign(msgspec.Struct, frozen=True):
    """Heartbeat of a source."""

    seen: datetime
    """Time of the heartbeat, by the clock of the source."""
    holder: str = ""
    """Name of the leader in the source; each leader chooses a new one when it is elected."""
    name: str = ""
    """Name of the cluster, for messages to users."""
    account: str = ""
    """User name of the ServiceAccount that wrote it; empty under shared keys."""

    @property
    def namespace(self) -> str:
        """Namespace of the account."""
        return Account(self.account).namespace


_decoder = msgspec.json.Decoder(Sign)
_SHARED = names.sign("")


def read(annotations: Mapping[str, str] | None) -> dict[str, Sign]:
    """Return the latest heartbeat of each source by UID; keys of an account take precedence over shared keys."""
    ordered = sorted(_signs(annotations), key=lambda each: (bool(each[2].account), each[2].seen))
    return {uid: sign for uid, _, sign in ordered}


def of_source(annotations: Mapping[str, str] | None, uid: str) -> dict[str, Sign]:
    """Return all heartbeats with the UID of a source, by key."""
    return {key: sign for found, key, sign in _signs(annotations) if found == uid}


def keys_of(annotations: Mapping[str, str] | None, uid: str) -> list[str]:
    """Return all keys with the UID of a source, also those of invalid heartbeats."""
    return [key for key in annotations or {} if _uid(key) == uid]


def patch(
    uid: str, sign: Sign, version: str, account: Account = NOBODY, others: Mapping[str, str] | None = None
) -> dict[str, object]:
    """Return the merge patch that writes a heartbeat.

    :param version: resourceVersion that the Lease must have
    :param others: annotations of the Lease; a new shared key is left out if it has too many of them
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
    """Yield UID of the source, key and heartbeat; invalid heartbeats are skipped."""
    for key, text in (annotations or {}).items():
        uid = _uid(key)
        if uid is None:
            continue
        try:
            sign = _decoder.decode(text)
        except msgspec.DecodeError:
            continue
        # A writer of a shared key may claim any account.
        sign = sign if not key.startswith(_SHARED) else msgspec.structs.replace(sign, account="")
        if sign.seen.tzinfo is not None:
            yield uid, key, sign
