"""Answers about ManifestWorks of a hub, with the texts of Open Cluster Management.

A user who names an executor needs the right `execute-as` on ManifestWorks of the namespace, for that service account.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from agent.api.kinds import MANIFEST_WORKS
from agent.kube.client import Client
from webhook.review import Answer, Outcome, Request, allowed, bad_request, object_of, old_of, user_of
from webhook.user_rights import Unreviewed, has_right

SIZE_LIMIT = 512_000
"""Maximum number of bytes of all manifests of a ManifestWork."""


class WorkGuard:
    """Checks manifests of ManifestWorks, and with `client` whether users may name their executors."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def of_work(self, request: Request) -> Answer:
        """Answer to a created or changed ManifestWork. Raises Malformed."""
        work = object_of(request, MANIFEST_WORKS.name)
        if reason := flaw(work):
            return bad_request(request, reason)
        executor = _executor(work)
        if executor is None or executor == _executor(old_of(request)):
            return allowed(request, Outcome.VALID)
        return await self._asked(request, *executor)

    async def _asked(self, request: Request, namespace: str, name: str) -> Answer:
        user, cluster = user_of(request), str(request.get("namespace") or "")
        attributes = {
            **{"verb": "execute-as", "group": MANIFEST_WORKS.group, "version": MANIFEST_WORKS.version},
            **{"resource": MANIFEST_WORKS.plural, "namespace": cluster},
            "name": f"system:serviceaccount:{namespace}:{name}",
        }
        try:
            may = await has_right(self._client, user, attributes)
        except Unreviewed as error:
            return bad_request(request, f"it is not known whether the executor may be named: {error}")
        if may:
            return allowed(request, Outcome.VALID)
        who = f"user {user['user']} cannot manipulate the Manifestwork with executor {namespace}/{name}"
        return bad_request(request, f"{who} in namespace {cluster}")


def _executor(work: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return namespace and name of the service account of an executor; None without one."""
    subject = ((work.get("spec") or {}).get("executor") or {}).get("subject") or {}
    account = subject.get("serviceAccount")
    if not isinstance(account, dict):
        return None
    return str(account.get("namespace") or ""), str(account.get("name") or "")


def flaw(work: Mapping[str, Any]) -> str:
    """Return why the manifests of a ManifestWork are invalid; empty if they are valid."""
    manifests = ((work.get("spec") or {}).get("workload") or {}).get("manifests") or []
    if not manifests:
        return "manifests should not be empty"
    size = sum(len(msgspec.json.encode(each)) for each in manifests)
    if size > SIZE_LIMIT:
        return f"the size of manifests is {size} bytes which exceeds the {SIZE_LIMIT} limit"
    known = set()
    for each in manifests:
        metadata = each.get("metadata") or {}
        if metadata.get("generateName"):
            return "generateName must not be set in manifest"
        if not metadata.get("name"):
            return "name must be set in manifest"
        named = f"{metadata.get('namespace') or ''}/{metadata['name']}"
        of = (named, f"{each.get('apiVersion')}.{each.get('kind')}")
        if of in known:
            return f"duplicate manifest for resource {named} with resource type {of[1]}"
        known.add(of)
    return ""
