"""Dry-run creation of objects: the API server calls the webhook, but stores nothing."""

import json
import secrets

import msgspec

from agent.api import names
from agent.api.kinds import PODS, TARGETS, Kind
from agent.cli.checks.view import Raw, Trial
from agent.kube.client import Client, encode
from agent.kube.errors import KubeError, ServerError

SECONDS = 15.0
"""Request timeout; exceeds the API server's timeout for webhooks."""


class Outcome(msgspec.Struct, frozen=True):
    """Result of a dry-run creation."""

    trial: Trial
    words: str = ""


UNTRIED = Outcome(Trial.UNTRIED)


async def create(client: Client, namespace: str) -> Outcome:
    """Dry-run the creation of an elected pod in a namespace."""
    pod = _pod(f"flotilla-doctor-{secrets.token_hex(4)}")
    try:
        answer = await _dry_run(client, PODS, pod, namespace)
    except ServerError as error:
        return Outcome(Trial.NO_WEBHOOK if "webhook" in error.message else Trial.REFUSED, error.message)
    except KubeError as error:
        return Outcome(Trial.REFUSED, str(error))
    made = json.loads(answer)
    proxy = made["spec"].get("schedulerName") == names.SCHEDULER_PROXY
    return Outcome(Trial.PROXY if proxy else Trial.ORDINARY)


async def refuses(client: Client, namespace: str) -> bool | None:
    """Return True if the webhook refuses an invalid Target, None if another component refuses it first."""
    target = {
        "apiVersion": TARGETS.api_version,
        "kind": TARGETS.name,
        "metadata": {"name": "x" * (names.SHORT_LIMIT + 1)},
        "spec": {"self": True},
    }
    try:
        await _dry_run(client, TARGETS, target, namespace)
    except KubeError as error:
        return True if f'.{names.GROUP}" denied' in str(error) else None
    return False


async def _dry_run(client: Client, kind: Kind, obj: Raw, namespace: str) -> bytes:
    return await client.session.request(
        "POST",
        kind.path(namespace),
        params={"dryRun": "All"},
        body=encode(obj),
        resource=kind.plural,
        timeout=SECONDS,
    )


def _pod(name: str) -> Raw:
    """Return a small pod that every Pod Security Standard allows."""
    amounts = {"cpu": "1m", "memory": "1Mi"}
    container = {
        "name": "none",
        "image": "flotilla.local/none:1",
        "resources": {"requests": amounts, "limits": amounts},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {names.PREFIX + names.ELECT: ""}},
        "spec": {
            "containers": [container],
            "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
        },
    }
