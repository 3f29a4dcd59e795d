"""Compare requests of agents and webhooks, in their own cluster and in targets, with the rights that they have.

Reads the audit logs of all fleets of a test run.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from agent.api.accounts import HOME, Account
from agent.api.agentpolicies import specs
from agent.api.hubroles import HUB
from agent.api.ownroles import AGENT, CANDIDATES, REGISTER, WEBHOOK
from agent.api.placementroles import KLUSTERLET
from agent.api.roles import CLUSTER_SUMMARY_VIEWER, EVERYTHING, Grant
from hack.lab.sandbox.manifests import AGENT_NAMESPACE
from hack.lab.soak import audit
from tests.chart import helm

_USERS = tuple(f"system:serviceaccount:{home}:flotilla-" for home in (AGENT_NAMESPACE, helm.NAMESPACE))
"""User name prefixes of the project's service accounts, in a sandbox and installed by the chart."""
_FORBIDDEN = 403
SOURCES = Account("source", {"": (*EVERYTHING, *CLUSTER_SUMMARY_VIEWER)})
"""Agents of other clusters, which use the service accounts of their Sources."""


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
    """A request in the audit log."""

    user: _User
    verb: str = ""
    object_ref: _Object | None = None
    response_status: _Status | None = None

    def kind_of_request(self) -> tuple[str, ...]:
        """Return all attributes that may decide whether a role allows the request."""
        what = self.object_ref or _Object()
        own = self.user.username if self.is_ours() else ""
        return (own, self.verb, what.api_group, what.resource, what.subresource, what.namespace, what.name)

    def needs(self, account: Account, scope: str, grant: Grant) -> bool:
        """Check that this grant allows the request."""
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
        """Check that an agent or a webhook made the request in its own cluster."""
        return self.user.username.startswith(_USERS)

    def _is(self, account: Account) -> bool:
        own = self.user.username.rpartition(":")[2] == f"flotilla-{account.name}"
        return not self.is_ours() if account is SOURCES else self.is_ours() and own

    def _home(self) -> str:
        return self.user.username.split(":")[2]


_decoder = msgspec.json.Decoder(Asked)


def asked(directory: Path) -> Iterator[Asked]:
    """Yield every request of agents and webhooks in a sandbox's audit logs."""
    for log in sorted(directory.glob("*/audit.log")):
        yield from audit.read_as(_decoder, log.parent)


_DISCOVERY = ' cannot get path "/api'
"""Every user may read discovery (`system:discovery`), but only once the API server has loaded its roles."""


def refused(directory: Path) -> list[str]:
    """List requests in the own cluster that were forbidden because a role lacks the right, or by an admission
    policy.

    An API server that has just started forbids granted requests until it has loaded its roles; those are left
    out.
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
    """Check that a role lacks the right. Impersonation is left out: a Role in a namespace grants it, and may be
    deleted before the objects there."""
    return (
        " cannot " in message
        and " cannot impersonate " not in message
        and _DISCOVERY not in message
        and not any(one.needs(*entry) for entry in _granted(AGENT, WEBHOOK, CANDIDATES))
    )


def _by_policy(message: str) -> bool:
    """Check that an admission policy about agents refused a request of the agent."""
    return any(f"ValidatingAdmissionPolicy '{name}'" in message for name in specs(""))


def _granted(*accounts: Account) -> list[tuple[Account, str, Grant]]:
    return [
        (account, scope, grant) for account in accounts for scope, grants in account.grants.items() for grant in grants
    ]


class Ledger:
    """Grants that no request in this test run has needed so far."""

    def __init__(self) -> None:
        self._waiting = [
            (account, scope, grant)
            for account, scope, grant in _granted(AGENT, WEBHOOK, SOURCES)
            # Webhooks installed by the chart do not register themselves. No cluster of these tests is a hub or a member
            # of one: tests/controllers/hub and tests/klusterlet run with exactly these rights.
            if (account is not WEBHOOK or grant.feature != REGISTER) and grant.feature not in (HUB, KLUSTERLET)
        ]

    def read(self, directory: Path) -> None:
        """Remove the grants that requests in a sandbox's audit logs have needed."""
        seen = set()
        for one in asked(directory):
            key = one.kind_of_request()
            if key not in seen:
                seen.add(key)
                self._waiting = [entry for entry in self._waiting if not one.needs(*entry)]

    def unused(self) -> list[str]:
        """List the grants that no request has needed so far."""
        return sorted(
            {
                f"{account.name}{f' ({scope})' if scope else ''}: {grant.verb} {grant.resource}"
                + (f".{grant.kind.group}" if grant.kind.group else "")
                for account, scope, grant in self._waiting
            }
        )


LEDGER = Ledger()
