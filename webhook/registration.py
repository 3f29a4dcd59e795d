"""The MutatingWebhookConfiguration: what it says, and keeping it so."""

import base64
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent.api.kinds import MUTATING_WEBHOOKS
from agent.api.names import ELECT, ENABLED_VALUE, GROUP, LABEL_ENABLED, PREFIX, SHORT_PREFIX
from agent.kube.client import Client, Style
from agent.kube.errors import AlreadyExists, NotFound

PATH = "/mutate--v1-pod"
PATH_V010 = "/mutate-v1-pod"

TIMEOUT_SECONDS = 10

_log = logging.getLogger(__name__)

_ANNOTATIONS = "object.metadata.annotations"

_SHORT_ELECT = SHORT_PREFIX + ELECT

ELECTED = (
    f"has({_ANNOTATIONS}) && ('{PREFIX}{ELECT}' in {_ANNOTATIONS} || "
    f"('{_SHORT_ELECT}' in {_ANNOTATIONS} && {_ANNOTATIONS}['{_SHORT_ELECT}'] != 'false'))"
)
"""CEL: only pods that ask for it depend on this webhook; every other pod is created while it is down."""

NOT_A_DELEGATE = (
    "!has(object.metadata.ownerReferences) || !object.metadata.ownerReferences.exists(o, "
    f"has(o.controller) && o.controller && o.kind == 'PodChaperon' && o.apiVersion.startsWith('{GROUP}/'))"
)
"""CEL: a pod made by a PodChaperon runs here (ruling 3)."""


class NotRegistered(Exception):
    """There is no MutatingWebhookConfiguration, and making one is not our task."""


@dataclass(frozen=True, slots=True)
class Service:
    """A Service through which the API server reaches the webhook."""

    namespace: str
    name: str
    port: int = 443

    @property
    def host(self) -> str:
        """The name that the API server expects in the certificate."""
        return f"{self.name}.{self.namespace}.svc"


def by_url(url: str) -> dict[str, Any]:
    """clientConfig of a webhook outside the cluster, at `https://HOST:PORT`."""
    return {"url": url.rstrip("/") + PATH}


def by_service(service: Service) -> dict[str, Any]:
    """clientConfig of a webhook in the cluster."""
    reference = {"namespace": service.namespace, "name": service.name, "port": service.port, "path": PATH}
    return {"service": reference}


def configuration(
    name: str, client_config: Mapping[str, Any], ca_bundle: bytes, *, reinvocation: str = "Never"
) -> dict[str, Any]:
    """The MutatingWebhookConfiguration (specs, section 3, with the design's repairs). `ca_bundle` is PEM."""
    webhook = {
        "name": f"{name}.{GROUP}",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {**client_config, "caBundle": _encoded(ca_bundle)},
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"], "scope": "*"}
        ],
        "namespaceSelector": {"matchLabels": {LABEL_ENABLED: ENABLED_VALUE}},
        "matchConditions": [
            {"name": "elected", "expression": ELECTED},
            {"name": "not-a-delegate", "expression": NOT_A_DELEGATE},
        ],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "reinvocationPolicy": reinvocation,
        "timeoutSeconds": TIMEOUT_SECONDS,
    }
    return {
        "apiVersion": MUTATING_WEBHOOKS.api_version,
        "kind": MUTATING_WEBHOOKS.name,
        "metadata": {"name": name},
        "webhooks": [webhook],
    }


def trust_patch(found: Mapping[str, Any], ca_bundle: bytes) -> dict[str, Any]:
    """The strategic merge patch that makes every webhook of a configuration trust `ca_bundle`; {} when all do."""
    want = _encoded(ca_bundle)
    stale = [
        {"name": webhook["name"], "clientConfig": {"caBundle": want}}
        for webhook in found.get("webhooks") or []
        if webhook["clientConfig"].get("caBundle") != want
    ]
    return {"webhooks": stale} if stale else {}


class Registration:
    """Keeps the configuration `name` pointing at us."""

    def __init__(
        self, client: Client, name: str, client_config: Mapping[str, Any], *, create: bool, reinvocation: str = "Never"
    ) -> None:
        self._client = client
        self._name = name
        self._client_config = client_config
        self._create = create
        self._reinvocation = reinvocation
        self._adopted = False
        self.done = False  #: whether the API server was seen to trust us

    async def ensure(self, ca_bundle: bytes) -> None:
        """Make the configuration exist (if that is our task) and trust `ca_bundle`; no write when it already does.

        What exists is made as we want it once, at our start; later only caBundle is kept: replicas with URLs of their
        own would otherwise take turns for ever.
        Raises NotRegistered, or KubeError.
        """
        want = configuration(self._name, self._client_config, ca_bundle, reinvocation=self._reinvocation)
        try:
            found = await self._client.get(MUTATING_WEBHOOKS, self._name)
        except NotFound:
            found = await self._make(want)
        await self._repair(found, want, ca_bundle)
        self._adopted = self.done = True

    async def _make(self, want: dict[str, Any]) -> dict[str, Any]:
        if not self._create:
            self.done = False
            raise NotRegistered(
                f"MutatingWebhookConfiguration {self._name} does not exist: install the chart, or start with --register"
            )
        try:
            made = await self._client.create(MUTATING_WEBHOOKS, want)
        except AlreadyExists:
            return await self._client.get(MUTATING_WEBHOOKS, self._name)
        _log.info("made MutatingWebhookConfiguration %s", self._name)
        return made

    async def _repair(self, found: dict[str, Any], want: dict[str, Any], ca_bundle: bytes) -> None:
        style: Style = "strategic"
        patch = trust_patch(found, ca_bundle)
        if self._create and not self._adopted:
            style = "merge"
            patch = {} if _covers(found.get("webhooks"), want["webhooks"]) else {"webhooks": want["webhooks"]}
        if patch:
            version = {"metadata": {"resourceVersion": found["metadata"]["resourceVersion"]}}
            await self._client.patch(MUTATING_WEBHOOKS, self._name, patch | version, style=style)
            _log.info("updated MutatingWebhookConfiguration %s", self._name)


def _encoded(ca_bundle: bytes) -> str:
    return base64.b64encode(ca_bundle).decode()


def _covers(found: Any, want: Any) -> bool:
    """Whether `found` says all that `want` says; what the API server defaulted does not count."""
    if isinstance(want, dict):
        return isinstance(found, dict) and all(_covers(found.get(key), value) for key, value in want.items())
    if isinstance(want, list):
        return isinstance(found, list) and len(found) == len(want) and all(map(_covers, found, want))
    return bool(found == want)
