"""What our own agents and webhooks asked of their API servers, against what they may ask: read from audit logs."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from agent.api.ownroles import AGENT, HOME, REGISTER, WEBHOOK, Account
from agent.api.roles import Grant

_USER = "system:serviceaccount:kube-system:flotilla-"
_HOME = "kube-system"
_FORBIDDEN = 403


class _Object(msgspec.Struct, rename="camel"):
    resource: str = ""
    subresource: str = ""
    api_group: str = ""
    namespace: str = ""
    name: str = ""


class _User(msgspec.Struct):
    username: str = ""


class _Status(msgspec.Struct):
    code: int = 0
    message: str = ""


class Asked(msgspec.Struct, rename="camel"):
    """One request, as the log has it."""

    user: _User
    verb: str = ""
    object_ref: _Object | None = None
    response_status: _Status | None = None

    def needs(self, account: Account, scope: str, grant: Grant) -> bool:
        """Whether it is this grant that allowed it."""
        what = self.object_ref
        return (
            what is not None
            and self.user.username == _USER + account.name
            and (self.verb, what.resource, what.subresource) == (grant.verb, grant.kind.plural, grant.sub)
            and what.api_group == grant.kind.group
            and (not grant.names or what.name in grant.names)
            and (not scope or what.namespace == (_HOME if scope == HOME else scope))
        )


_decoder = msgspec.json.Decoder(Asked)


def asked(directory: Path) -> Iterator[Asked]:
    """Every request of ours in the logs of a sandbox."""
    for log in sorted(directory.glob("*/audit*.log")):
        with log.open("rb") as lines:
            yield from map(_decoder.decode, lines)


def refused(directory: Path) -> list[str]:
    """What a role lacks: requests that the API server of the own cluster forbade for want of a right."""
    found = {
        f"{one.verb} {one.object_ref}: {one.response_status.message}"
        for one in asked(directory)
        if one.response_status is not None
        and one.response_status.code == _FORBIDDEN
        and " cannot " in one.response_status.message
    }
    return sorted(found)


def unused(directory: Path) -> list[str]:
    """What a role has too much: grants that no request needed."""
    waiting = [
        (account, scope, grant)
        for account in (AGENT, WEBHOOK)
        for scope, grants in account.grants.items()
        for grant in grants
        if (account is not WEBHOOK or grant.feature != REGISTER)
    ]
    for one in asked(directory):
        waiting = [entry for entry in waiting if not one.needs(*entry)]
    return [f"{account.name}: {grant.verb} {grant.kind}/{grant.sub}".rstrip("/") for account, _, grant in waiting]
