"""Keeping the two webhook configurations pointing at us, and trusting our CA."""

import logging
from typing import Any

from agent.api.kinds import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Kind
from agent.api.webhookpolicies import REGISTERS_ITSELF
from agent.kube.client import Client, Style
from agent.kube.errors import AlreadyExists, Forbidden, NotFound
from webhook.configurations import Raw, Reach, mutating, trust_patch, validating

_MARK = {"annotations": {REGISTERS_ITSELF: "true"}}

_log = logging.getLogger(__name__)


class NotRegistered(Exception):
    """No MutatingWebhookConfiguration exists, and creating it is not the webhook's task."""


class Registration:
    """Keeps the configurations `name`, a mutating and a validating one, pointing at us."""

    def __init__(
        self,
        client: Client,
        name: str,
        reach: Reach,
        *,
        create: bool,
        reinvocation: str = "Never",
        placements: bool = False,
    ) -> None:
        self._client = client
        self._name = name
        self._reach = reach
        self._create = create
        self._reinvocation = reinvocation
        self._placements = placements
        self._adopted: set[Kind] = set()
        self.done = False  #: whether the API server was seen to trust us with pods

    async def ensure(self, ca_bundle: bytes) -> None:
        """Create the configurations (with --register) and make them trust `ca_bundle`; write only changes.

        An existing configuration is fully updated once, at the start. Later only caBundle is maintained: replicas with
        different URLs would otherwise overwrite each other forever. Without --register a missing validating one is left
        out on purpose. Without a `ca_bundle` another program maintains trust, and nothing is written.
        Raises NotRegistered, or KubeError.
        """
        if not ca_bundle:
            await self._look()
            return
        mutate = mutating(self._name, self._reach, ca_bundle, reinvocation=self._reinvocation)
        if not await self._ensure(MUTATING_WEBHOOKS, mutate, ca_bundle):
            self.done = False
            raise NotRegistered(
                f"MutatingWebhookConfiguration {self._name} does not exist: install the chart, or start with --register"
            )
        # Pods are mutated whatever becomes of the other one.
        self.done = True
        validate = validating(self._name, self._reach, ca_bundle, placements=self._placements)
        await self._ensure(VALIDATING_WEBHOOKS, validate, ca_bundle)

    async def _look(self) -> None:
        """Check that API servers trust the signer of the certificate. Raises NotRegistered, KubeError."""
        try:
            found = await self._client.get(MUTATING_WEBHOOKS, self._name)
        except NotFound:
            found = {}
        # An upgrade may add entries that are trusted later; those with failurePolicy Ignore may wait.
        webhooks = [each for each in found.get("webhooks") or [] if each.get("failurePolicy") != "Ignore"]
        self.done = bool(webhooks) and all(webhook["clientConfig"].get("caBundle") for webhook in webhooks)
        if not self.done:
            raise NotRegistered(
                f"MutatingWebhookConfiguration {self._name} does not exist, or has no caBundle yet: install the chart,"
                " and see that cert-manager's CA injector runs"
            )

    async def _ensure(self, kind: Kind, want: Raw, ca_bundle: bytes) -> bool:
        """Return whether the configuration exists; create it if allowed, and repair it."""
        try:
            found = await self._client.get(kind, self._name)
        except NotFound:
            if not self._create:
                return False
            found = await self._make(kind, want)
        await self._repair(kind, found, want, ca_bundle)
        self._adopted.add(kind)
        return True

    async def _make(self, kind: Kind, want: Raw) -> Raw:
        marked = want | {"metadata": want["metadata"] | _MARK}
        try:
            made = await self._client.create(kind, marked)
        except AlreadyExists:
            return await self._client.get(kind, self._name)
        _log.info("made %s %s", kind.name, self._name)
        return made

    async def _repair(self, kind: Kind, found: Raw, want: Raw, ca_bundle: bytes) -> None:
        if self._create and kind not in self._adopted:
            wanted = {"webhooks": want["webhooks"], "metadata": _MARK}
            try:
                await self._patch(kind, found, {} if _covers(found, wanted) else wanted, "merge")
                return
            except Forbidden as error:
                remedy = f"kubectl annotate {kind.plural} {self._name} {REGISTERS_ITSELF}=true"
                _log.warning("only caBundle of %s %s is kept: %s; %s", kind.name, self._name, error, remedy)
        await self._patch(kind, found, trust_patch(found, ca_bundle), "strategic")

    async def _patch(self, kind: Kind, found: Raw, patch: Raw, style: Style) -> None:
        """Write a patch over the version that was read; an empty one is not written."""
        if not patch:
            return
        metadata = {**patch.get("metadata", {}), "resourceVersion": found["metadata"]["resourceVersion"]}
        await self._client.patch(kind, self._name, {**patch, "metadata": metadata}, style=style)
        _log.info("updated %s %s", kind.name, self._name)


def _covers(found: Any, want: Any) -> bool:
    """Return whether `found` includes all fields of `want`; fields that the API server has defaulted do not matter."""
    if isinstance(want, dict):
        return isinstance(found, dict) and all(_covers(found.get(key), value) for key, value in want.items())
    if isinstance(want, list):
        return isinstance(found, list) and len(found) == len(want) and all(map(_covers, found, want))
    return bool(found == want)
