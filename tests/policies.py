"""API server policies that refuse some objects."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from agent.api.kinds import POLICIES, POLICY_BINDINGS, Kind
from agent.kube.client import Client
from agent.kube.errors import Invalid
from tests.waiting import until

Raw = dict[str, Any]


@contextlib.asynccontextmanager
async def refusing(client: Client, kind: Kind, refused: Raw, allowed: str, message: str) -> AsyncIterator[None]:
    """Refuse the creation of objects of a kind in one namespace while the block runs.

    :param refused: an object that is refused, with its namespace
    :param allowed: CEL expression that is true of objects that may be created
    """
    namespace = refused["metadata"]["namespace"]
    name = f"{namespace}-{kind.plural}"
    rule = {"apiGroups": [kind.group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [kind.plural]}
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        },
        "validations": [{"expression": allowed, "message": message}],
    }
    head = {"apiVersion": POLICIES.api_version, "metadata": {"name": name}}
    binding = {"policyName": name, "validationActions": ["Deny"]}

    async def is_in_force() -> bool:
        try:
            await client.create_raw(kind, refused, dry_run=True)
        except Invalid:
            return True
        return False

    await client.create(POLICIES, {**head, "kind": POLICIES.name, "spec": policy})
    try:
        await client.create(POLICY_BINDINGS, {**head, "kind": POLICY_BINDINGS.name, "spec": binding})
        await until(is_in_force, what="the policy is in force")
        yield
    finally:
        await client.delete(POLICY_BINDINGS, name)
        await client.delete(POLICIES, name)
