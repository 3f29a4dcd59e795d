"""Target tokens: renew the tokens of targets before they expire.

Watches  Targets, ClusterTargets, the state of connected targets, Secrets with our label.
Writes   the kubeconfig in such a Secret, with a new token from the target; if a renewal has failed, the Target's
         condition TokenRenewed and a Warning event.
The source's service account must be allowed to create tokens of itself, which `flotilla join` grants. The old token
stays valid until it expires, so a late write does no harm. Absent target: tried again when it is back.
"""

import asyncio
import base64
import time
from datetime import datetime
from typing import Any

import msgspec

from agent.api import names
from agent.api.conditions import find_condition, set_condition
from agent.api.kinds import SECRETS, SERVICE_ACCOUNTS, TARGET_KINDS
from agent.api.sourcepolicies import LONGEST_TOKEN_SECONDS
from agent.clusters import metrics
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.kube import kubeconfig
from agent.kube.errors import Forbidden, Invalid, InvalidConfig, NotFound
from agent.kube.store import Key, Object
from agent.model import token
from agent.model.diff import same
from agent.model.token import Claims
from agent.runtime.controller import Controller
from agent.targets.target import gather
from agent.targets.target.decide import Conditions
from agent.targets.target.gather import Problem, Reference

LONGEST_WAIT_SECONDS = 3600.0
"""Longest wait before the clock is read again, as it may have been set."""
_LEAST_SECONDS = 1.0


class TargetTokenController(Controller[Key]):
    """Keys are those of Targets; ClusterTargets have an empty namespace."""

    name = "target-token"
    workers = 2

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._client = deps.local.client
        self._objects = deps.local.either(TARGET_KINDS)
        gather.index_secrets(self._objects)
        self._secrets = deps.local.informer(SECRETS, labels=names.LABEL_TARGET_SECRET)
        self._renewed_at: dict[Key, float] = {}
        for informer in self._objects.informers:
            self.watch(informer, lambda target: [target.key])
        self.watch(self._secrets, self._users)
        deps.targets.on_change(lambda target: self.queue.add(target.key))

    async def reconcile(self, key: Key) -> float | None:
        """Renew the token of one target if it is due. Return the seconds until the next check."""
        obj = self._objects.get(key)
        target = self._deps.targets.get(key)
        if obj is None:
            self._renewed_at.pop(key, None)
            return None
        if obj.deleting or target is None or target.is_self or not target.ready:
            return None
        place = gather.reference(obj.decode())
        secret = self._secrets.store.get(place.secret) if place else None
        if place is None or secret is None:
            return None
        found = await asyncio.to_thread(_read, place, secret)
        metrics.note_token(key, found[1] if found else None)
        if found is None:
            return None
        document, claims = found
        wait = self._wait(key, claims)
        if wait > 0:
            # A user may have written a newer token.
            await self._tell(obj, "")
            return min(wait, LONGEST_WAIT_SECONDS)
        return await self._renew(obj, target, place, secret, document, claims)

    def _wait(self, key: Key, claims: Claims) -> float:
        """Return the seconds until a renewal is due. A wrong clock must not cause constant renewals.

        Therefore at least half of the usual time passes between two of them.
        """
        part = self._deps.settings.token_renewal
        wait = seconds_until_due(claims, self._deps.clock.now(), part)
        renewed_at = self._renewed_at.get(key)
        if renewed_at is None:
            return wait
        pause = max(_LEAST_SECONDS, part * claims.seconds / 2)
        return max(wait, renewed_at + pause - time.monotonic())

    async def _renew(
        self, obj: Object, target: Target, place: Reference, secret: Object, document: kubeconfig.Entry, claims: Claims
    ) -> float | None:
        try:
            answer = await target.port.create(SERVICE_ACCOUNTS, token_request(claims), claims.namespace, sub="token")
            kubeconfig.set_token(document, str(answer["status"]["token"]), place.context)
            await self._write(secret, place.key, document)
        except (Forbidden, NotFound, Invalid) as error:
            await self._tell(obj, renewal_problem(str(place), claims, str(error)))
            return seconds_until_retry(claims, self._deps.clock.now())
        self._renewed_at[obj.key] = time.monotonic()
        await self._tell(obj, "")
        return _LEAST_SECONDS

    async def _write(self, secret: Object, key: str, document: kubeconfig.Entry) -> None:
        data = base64.b64encode(msgspec.json.encode(document)).decode()
        body = {"metadata": {"resourceVersion": secret.version}, "data": {key: data}}
        self._secrets.absorb(await self._client.patch_raw(SECRETS, secret.name, body, secret.namespace))

    def _users(self, secret: Object) -> list[Key]:
        return [obj.key for obj in gather.users_of(self._objects, secret.key)]

    async def _tell(self, obj: Object, problem: str) -> None:
        target = obj.decode()
        old = (target.get("status") or {}).get("conditions")
        new = with_renewed_condition(old, problem, target["metadata"].get("generation"), self._deps.clock.now())
        if same(old or [], new):
            return
        await self._deps.target_status.write(obj, {"conditions": new})
        if problem and (find_condition(old, CONDITION) or {}).get("status") != "False":
            self._deps.recorder.event(target, "Warning", "TokenRenewalFailed", problem)


def _read(place: Reference, secret: Object) -> tuple[kubeconfig.Entry, Claims] | None:
    """Return the kubeconfig and the claims of its token; None if it has no token to renew."""
    try:
        document = kubeconfig.document_of(gather.kubeconfig(place, secret))
        claims = token.claims(kubeconfig.token_of(document, place.context))
    except (Problem, InvalidConfig):
        # The target controller reports this in the Target's conditions.
        return None
    return (document, claims) if claims else None


CONDITION = "TokenRenewed"
"""Condition of a Target; absent until a token could not be renewed."""

SHORTEST_SECONDS = 600
"""Shortest lifetime that API servers accept for a token, in seconds."""
_RETRY_LEAST, _RETRY_MOST = 10.0, 600.0


def seconds_until_due(claims: Claims, now: datetime, part: float) -> float:
    """Return the seconds until a part (0.0 to 1.0) of a token's lifetime has passed; 0 if it has."""
    return max(0.0, (part - claims.used(now)) * claims.seconds)


def token_request(claims: Claims) -> dict[str, Any]:
    """Return a TokenRequest for the same service account, audiences and lifetime, within the allowed limits."""
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


def seconds_until_retry(claims: Claims, now: datetime) -> float:
    """Return the seconds until the next try: a tenth of the remaining lifetime, within limits."""
    return min(_RETRY_MOST, max(_RETRY_LEAST, (claims.expires - now).total_seconds() / 10))


def renewal_problem(secret: str, claims: Claims, why: str) -> str:
    """Return the message about a failed renewal, with the remedy."""
    return (
        f"the token in {secret} ends at {claims.expires:%Y-%m-%dT%H:%M:%SZ} and cannot be renewed ({why}): run"
        f" `flotilla join` again, or let service account"
        f" {claims.namespace}/{claims.account} create serviceaccounts/token of itself in the target"
    )


def with_renewed_condition(old: Conditions | None, problem: str, generation: int | None, now: datetime) -> Conditions:
    """Return a Target's conditions with that of its token. Success is reported only after a failure."""
    if problem:
        return set_condition(old, CONDITION, "False", "RenewalFailed", problem, now, generation)
    if find_condition(old, CONDITION) is None:
        return list(old or ())
    return set_condition(old, CONDITION, "True", "Renewed", "there is a later token", now, generation)
