"""Clusters that answer every read and refuse what is created: for a dead webhook, or for no share of the server."""

import contextlib
import secrets
from collections.abc import AsyncIterator
from typing import Any

from agent.api.kinds import CHAPERONS, VALIDATING_WEBHOOKS, Kind
from agent.api.names import LABEL_PARENT_UID
from agent.kube.client import Client, encode
from agent.kube.errors import NotFound, ServerError, StatusError, TooManyRequests
from tests.waiting import until

Raw = dict[str, Any]

FLOW_SCHEMAS = Kind("flowcontrol.apiserver.k8s.io", "v1", "flowschemas", "FlowSchema", namespaced=False)
PRIORITY_LEVELS = Kind(
    "flowcontrol.apiserver.k8s.io",
    "v1",
    "prioritylevelconfigurations",
    "PriorityLevelConfiguration",
    namespaced=False,
)
_NOWHERE = "https://127.0.0.1:1/validate"
"""Nobody listens there."""


@contextlib.asynccontextmanager
async def dead_webhook(client: Client, kind: Kind, namespace: str) -> AsyncIterator[str]:
    """In force for what is created in a namespace, with its name; pods of users are let be, delegates are not."""
    name = f"dead-{secrets.token_hex(3)}"
    rule = {
        "apiGroups": [kind.group],
        "apiVersions": [kind.version],
        "operations": ["CREATE"],
        "resources": [kind.plural],
    }
    webhook = {
        "name": f"{name}.flotilla.test",
        "rules": [rule],
        "clientConfig": {"url": _NOWHERE},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 1,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
    }
    await client.create(VALIDATING_WEBHOOKS, {"metadata": {"name": name}, "webhooks": [webhook]})
    try:
        await in_force(client, kind, namespace, ServerError)
        yield name
    finally:
        with contextlib.suppress(NotFound):
            await client.delete(VALIDATING_WEBHOOKS, name)
        await in_force(client, kind, namespace, None)


@contextlib.asynccontextmanager
async def no_share(client: Client, peer: Client, account: str, namespace: str) -> AsyncIterator[None]:
    """The server answers 429 to PodChaperons that a service account creates, whose client `peer` is."""
    name = f"none-{secrets.token_hex(3)}"
    limited = {
        "nominalConcurrencyShares": 0,
        "lendablePercent": 0,
        "borrowingLimitPercent": 0,
        "limitResponse": {"type": "Reject"},
    }
    await client.create(PRIORITY_LEVELS, {"metadata": {"name": name}, "spec": {"type": "Limited", "limited": limited}})
    rule = {"verbs": ["create"], "apiGroups": [CHAPERONS.group], "resources": [CHAPERONS.plural], "namespaces": ["*"]}
    subject = {"kind": "ServiceAccount", "serviceAccount": {"name": account, "namespace": namespace}}
    schema = {
        "priorityLevelConfiguration": {"name": name},
        "matchingPrecedence": 2,
        "rules": [{"subjects": [subject], "resourceRules": [rule]}],
    }
    try:
        await client.create(FLOW_SCHEMAS, {"metadata": {"name": name}, "spec": schema})
        await in_force(peer, CHAPERONS, namespace, TooManyRequests)
        yield
    finally:
        for kind in (FLOW_SCHEMAS, PRIORITY_LEVELS):
            with contextlib.suppress(NotFound):
                await client.delete(kind, name)
        await in_force(peer, CHAPERONS, namespace, None)


async def in_force(client: Client, kind: Kind, namespace: str, error: type[StatusError] | None) -> None:
    """Wait until the creation of something is refused so, or is not; API servers take a moment to know."""
    spec = {"containers": [{"name": "main", "image": "busybox"}]}
    tried: Raw = {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {"name": "tried", "namespace": namespace, "labels": {LABEL_PARENT_UID: "none"}},
        "spec": spec,
    }

    async def refused() -> bool:
        path = kind.path(namespace)
        try:
            await client.session.request("POST", path, params={"dryRun": "All"}, body=encode(tried))
        except StatusError as found:
            return error is not None and isinstance(found, error)
        return error is None

    await until(refused, what=f"{kind.plural} are refused: {error.__name__ if error else 'no'}")
