"""What agents and webhooks asked of API servers, in their own cluster and in targets, against what they may ask.

Read from the audit logs of all fleets of a run.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from agent.api.accounts import HOME, Account
from agent.api.agentpolicies import specs
from agent.api.ownroles import AGENT, CANDIDATES, REGISTER, WEBHOOK
from agent.api.roles import CLUSTER_SUMMARY_VIEWER, EVERYTHING, Grant
from hack.lab.sandbox.manifests import AGENT_NAMESPACE
from hack.lab.soak import audit
from tests.chart import helm

_USERS = tuple(f"system:serviceaccount:{home}:flotilla-" for home in (AGENT_NAMESPACE, helm.NAMESPACE))
"""How accounts of our own begin, in a sandbox and where the chart is installed."""
_FORBIDDEN = 403
SOURCES = Account("source", {"": (*EVERYTHING, *CLUSTER_SUMMARY_VIEWER)})
"""Agents of other clusters, by the service accounts of their Sources."""


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

    def kind_of_request(self) -> tuple[str, ...]:
        """All that may make a difference to a role."""
        what = self.object_ref or _Object()
        own = self.user.username if self.is_ours() else ""
        return (own, self.verb, what.api_group, what.resource, what.subresource, what.namespace, what.name)

    def needs(self, account: Account, scope: str, grant: Grant) -> bool:
        """Whether it is this grant that allowed it."""
        what = self.object_ref
        return (
            what is not None
            and self._is(account)
            and (self.verb, what.resource, what.subresource) == (grant.verb, grant.kind.plural, grant.sub)
            and what.api_group == grant.kind.group
            and (not grant.names or what.name in grant.names)
            and (not scope or what.namespace == (self._home() if scope == HOME else scope))
        )

    def is_ours(self) -> bool:
        """Whether an agent or a webhook asked in its own cluster."""
        return self.user.username.startswith(_USERS)

    def _is(self, account: Account) -> bool:
        own = self.user.username.rpartition(":")[2] == f"flotilla-{account.name}"
        return not self.is_ours() if account is SOURCES else self.is_ours() and own

    def _home(self) -> str:
        return self.user.username.split(":")[2]


_decoder = msgspec.json.Decoder(Asked)


def asked(directory: Path) -> Iterator[Asked]:
    """Every request of ours in the logs of a sandbox."""
    for log in sorted(directory.glob("*/audit.log")):
        yield from audit.read_as(_decoder, log.parent)


_DISCOVERY = ' cannot get path "/api'
"""Every user may ask for what is served (`system:discovery`), once the API server has read its roles."""


def refused(directory: Path) -> list[str]:
    """What a role lacks: requests that the API server of the own cluster forbade for want of a right, or by a policy.

    One that has just been started forbids what it grants as soon as it has read its roles: that does not count.
    """
    found = {
        f"{one.verb} {one.object_ref}: {one.response_status.message}"
        for one in asked(directory)
        if one.is_ours()
        and one.response_status is not None
        and one.response_status.code == _FORBIDDEN
        and (_by_policy(one.response_status.message) or _by_role(one, one.response_status.message))
    }
    return sorted(found)


def _by_role(one: Asked, message: str) -> bool:
    """Whom the agent may impersonate is granted by a Role in a namespace, and may go with that before its objects."""
    return (
        " cannot " in message
        and " cannot impersonate " not in message
        and _DISCOVERY not in message
        and not any(one.needs(*entry) for entry in _granted(AGENT, WEBHOOK, CANDIDATES))
    )


def _by_policy(message: str) -> bool:
    """Whether one of the policies about the agent refused what the agent itself wanted."""
    return any(f"ValidatingAdmissionPolicy '{name}'" in message for name in specs(""))


def _granted(*accounts: Account) -> list[tuple[Account, str, Grant]]:
    return [
        (account, scope, grant) for account in accounts for scope, grants in account.grants.items() for grant in grants
    ]


class Ledger:
    """What roles have too much: grants that no request of any fleet of this run has needed."""

    def __init__(self) -> None:
        self._waiting = [
            (account, scope, grant)
            for account, scope, grant in _granted(AGENT, WEBHOOK, SOURCES)
            # Webhooks of the chart do not register themselves.
            if account is not WEBHOOK or grant.feature != REGISTER
        ]

    def read(self, directory: Path) -> None:
        """Strike off what was asked in a sandbox so far."""
        seen = set()
        for one in asked(directory):
            key = one.kind_of_request()
            if key not in seen:
                seen.add(key)
                self._waiting = [entry for entry in self._waiting if not one.needs(*entry)]

    def unused(self) -> list[str]:
        """What is left, after all that was asked until now."""
        return sorted(
            {
                f"{account.name}{f' ({scope})' if scope else ''}: {grant.verb} {grant.resource}"
                + (f".{grant.kind.group}" if grant.kind.group else "")
                for account, scope, grant in self._waiting
            }
        )


LEDGER = Ledger()
