"""Answers for our own kinds: faults refuse an object; problems that may resolve, such as a missing Secret, only warn.

The webhook reads the Secret, never the target: objects are applied in any order, so a missing one may follow. Only
users with the right to read the Secret get these warnings, and no warning shows its content.
"""

import asyncio
import base64
import binascii
import logging
from collections.abc import Mapping
from typing import Any

from agent.api import names
from agent.api.kinds import PLACEMENTS, SECRETS
from agent.api.names.ocm import PLACEMENT
from agent.kube import config
from agent.kube.client import Client
from agent.kube.errors import Forbidden, InvalidConfig, KubeError, NotFound
from agent.kube.reviews import is_allowed
from agent.model import placementref
from webhook.review import Answer, Outcome, Request, allowed, refused, user_of
from webhook.validation import SecretReference, is_going, judge, secret_of

PLACEMENT_SECONDS = 1.0
"""Seconds to read a Placement that pods are to follow; after that there is no warning."""
SECRET_SECONDS = 2.0
"""Seconds to read a Secret; after that there is no warning."""

_log = logging.getLogger(__name__)


class Validator:
    """Reads Secrets with `client`; if that is forbidden, there are no warnings about them.

    `agent` is the agent's user, which ignores warnings: for its own writes no Secret is read.
    """

    def __init__(self, client: Client, agent: str = "") -> None:
        self._client = client
        self._agent = agent

    async def answer(self, request: Request) -> Answer:
        """Refuse an object with faults of its own. Raises Malformed when it is none of ours."""
        verdict = judge(request)
        if verdict.faults:
            return refused(request, verdict.faults)
        warnings = [f"{fault.field}: {fault.reason}" for fault in verdict.tolerated]
        obj = request.get("object")
        if request.get("operation") in ("CREATE", "UPDATE") and isinstance(obj, dict):
            reference = secret_of(obj, request.get("namespace") or "")
            user = user_of(request)
            is_agents = bool(self._agent) and user["user"] == self._agent
            if reference is not None and not is_agents and not is_going(obj):
                warnings += await self._about_secret(reference, user)
        return allowed(request, Outcome.VALID, warnings)

    async def about_placement(self, pod: Mapping[str, Any], namespace: str) -> list[str]:
        """Return a warning if a pod names a missing Placement; empty also if that cannot be found out."""
        annotations = (pod.get("metadata") or {}).get("annotations") or {}
        name = names.annotation(annotations, PLACEMENT)
        if not name or not namespace or any(placementref.flaws(annotations)):
            return []
        try:
            async with asyncio.timeout(PLACEMENT_SECONDS):
                await self._client.get_raw(PLACEMENTS, name, namespace)
        except NotFound:
            told = (
                f"annotation {names.SHORT_PREFIX}{PLACEMENT}: there is no Placement {name} in namespace {namespace}, so"
                f" pods wait for one: create it, or see how it is spelt (kubectl get placements -n {namespace})"
            )
            return [told]
        except (KubeError, TimeoutError) as error:
            _log.info("Placement %s/%s is not checked: %s", namespace, name, error)
        return []

    async def _about_secret(self, reference: SecretReference, user: Mapping[str, Any]) -> list[str]:
        where = f"spec.kubeconfigSecret: Secret {reference.namespace}/{reference.name}"
        try:
            async with asyncio.timeout(SECRET_SECONDS):
                if not await is_allowed(self._client, user, _reading(reference)):
                    return []
                secret = await self._client.get(SECRETS, reference.name, reference.namespace)
        except NotFound:
            return [f"{where} does not exist: the target is connected once it does"]
        except Forbidden as error:
            # Without webhook.checkSecrets the chart grants no right to read Secrets: nothing is wrong.
            _log.debug("%s is not checked: %s", where, error)
            return []
        except (KubeError, TimeoutError) as error:
            _log.info("%s is not checked: %s", where, error)
            return []
        complaint = await asyncio.to_thread(_complaint, secret.get("data") or {}, reference)
        return [f"{where} {complaint}"] if complaint else []


def _complaint(data: Mapping[str, str], reference: SecretReference) -> str | None:
    if reference.key not in data:
        return f"has no key {reference.key!r}: put the kubeconfig there, or name its key in spec.kubeconfigSecret.key"
    try:
        # The agent's settings decide whether credential plugins run; the webhook never runs one.
        connection = config.parse(base64.b64decode(data[reference.key]), reference.context, plugins=True)
    except InvalidConfig:
        return f"key {reference.key!r} is no usable kubeconfig: the condition Ready of the target will say why"
    except binascii.Error:
        return f"key {reference.key!r} cannot be read"
    # Only users who may read the Secret get this message, so names of clusters are no secret to them.
    return f"key {reference.key!r}: {connection.insecure}" if connection.insecure else None


def _reading(reference: SecretReference) -> dict[str, str]:
    where = {"namespace": reference.namespace, "name": reference.name}
    return {"verb": "get", "version": SECRETS.version, "resource": SECRETS.plural, **where}
