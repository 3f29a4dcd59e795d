"""When a token is renewed, what is asked for then, and what is said when it cannot be. Pure."""

from datetime import datetime
from typing import Any

from agent.api.conditions import find_condition, set_condition
from agent.api.sourcepolicies import LONGEST_TOKEN_SECONDS
from agent.controllers.target.decide import Conditions
from agent.model.token import Claims

CONDITION = "TokenRenewed"
"""Told once a token could not be renewed."""

SHORTEST_SECONDS = 600
"""API servers give no token for less."""
_RETRY_LEAST, _RETRY_MOST = 10.0, 600.0


def wait(claims: Claims, now: datetime, part: float) -> float:
    """Seconds until a token is due, when this part of its life is over; 0 when it is."""
    return max(0.0, (part - claims.used(now)) * claims.seconds)


def request(claims: Claims) -> dict[str, Any]:
    """Asks for a token of the same service account for the same time, as far as that may be."""
    seconds = min(LONGEST_TOKEN_SECONDS, max(SHORTEST_SECONDS, round(claims.seconds)))
    spec: dict[str, Any] = {"expirationSeconds": seconds}
    if claims.audiences:
        spec["audiences"] = list(claims.audiences)
    return {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "metadata": {"name": claims.account},
        "spec": spec,
    }


def retry(claims: Claims, now: datetime) -> float:
    """Seconds until another try: more often as the end comes near."""
    return min(_RETRY_MOST, max(_RETRY_LEAST, (claims.expires - now).total_seconds() / 10))


def trouble(secret: str, claims: Claims, why: str) -> str:
    """What an operator has to know."""
    return (
        f"the token in {secret} ends at {claims.expires:%Y-%m-%dT%H:%M:%SZ} and cannot be renewed ({why}): run"
        f" `flotilla join` again, or let service account"
        f" {claims.namespace}/{claims.account} create serviceaccounts/token of itself in the target"
    )


def conditions(old: Conditions | None, problem: str, generation: int | None, now: datetime) -> Conditions:
    """A Target's conditions with that of its token; success is told only after a failure."""
    if problem:
        return set_condition(old, CONDITION, "False", "RenewalFailed", problem, now, generation)
    if find_condition(old, CONDITION) is None:
        return list(old or ())
    return set_condition(old, CONDITION, "True", "Renewed", "there is a later token", now, generation)
