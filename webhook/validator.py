"""Answers for our own kinds: faults refuse them, and what may still come right, such as a Secret, is a warning.

The Secret is read here, and never the target: objects are applied in any order, so what is missing now may be next.
"""

import asyncio
import base64
import binascii
import logging
from collections.abc import Mapping
from typing import Any

from agent.api.kinds import SECRETS
from agent.kube import config
from agent.kube.client import Client
from agent.kube.errors import InvalidConfig, KubeError, NotFound
from webhook.review import Answer, Outcome, Request, allowed, refused
from webhook.validation import SecretReference, judge, secret_of

SECRET_SECONDS = 2.0
"""How long a Secret may take to read before there is simply no warning."""

_log = logging.getLogger(__name__)


class Validator:
    """Reads Secrets with `client`; where it may not, nothing is said about them."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def answer(self, request: Request) -> Answer:
        """Refuse an object with faults of its own. Raises Malformed when it is none of ours."""
        verdict = judge(request)
        if verdict.faults:
            return refused(request, verdict.faults)
        warnings = [f"{fault.field}: {fault.reason}" for fault in verdict.tolerated]
        obj = request.get("object")
        if request.get("operation") in ("CREATE", "UPDATE") and isinstance(obj, dict):
            warnings += await self._about_secret(obj, request.get("namespace") or "")
        return allowed(request, Outcome.VALID, warnings)

    async def _about_secret(self, obj: Mapping[str, Any], namespace: str) -> list[str]:
        reference = secret_of(obj, namespace)
        if reference is None or "deletionTimestamp" in obj["metadata"]:
            return []
        where = f"spec.kubeconfigSecret: Secret {reference.namespace}/{reference.name}"
        try:
            async with asyncio.timeout(SECRET_SECONDS):
                secret = await self._client.get(SECRETS, reference.name, reference.namespace)
        except NotFound:
            return [f"{where} does not exist: the target is connected once it does"]
        except (KubeError, TimeoutError) as error:
            _log.info("%s is not checked: %s", where, error)
            return []
        complaint = await asyncio.to_thread(_complaint, secret.get("data") or {}, reference)
        return [f"{where} {complaint}"] if complaint else []


def _complaint(data: Mapping[str, str], reference: SecretReference) -> str | None:
    if reference.key not in data:
        return f"has no key {reference.key!r}: put the kubeconfig there, or name its key in spec.kubeconfigSecret.key"
    try:
        # Whether credential plugins may run is the agent's setting: here none is run in any case.
        config.parse(base64.b64decode(data[reference.key]), reference.context, plugins=True)
    except InvalidConfig as error:
        return f"key {reference.key!r} is no usable kubeconfig: {error}"
    except binascii.Error:
        return f"key {reference.key!r} cannot be read"
    return None
