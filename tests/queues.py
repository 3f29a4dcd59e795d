"""A queue that gates the new pods of a cluster, as Kueue does: a policy of the API server adds a scheduling gate."""

import contextlib
from collections.abc import AsyncIterator

import msgspec

from agent.api.kinds import PODS, Kind
from agent.kube.client import Client
from agent.kube.errors import NotFound
from tests.waiting import until

GATE = "queue.example.com/admission"
PREFIX = "queued-"
"""Prefix of the names of pods that the queue gates."""
_GROUP = "admissionregistration.k8s.io"
_POLICIES = Kind(_GROUP, "v1", "mutatingadmissionpolicies", "MutatingAdmissionPolicy", False)
_BINDINGS = Kind(_GROUP, "v1", "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", False)
_PATCH = f'Object{{spec: Object.spec{{schedulingGates: [Object.spec.schedulingGates{{name: "{GATE}"}}]}}}}'


@contextlib.asynccontextmanager
async def gating(client: Client, namespace: str) -> AsyncIterator[None]:
    """Gate pods of a namespace whose names begin with `PREFIX`, until this context ends."""
    name = f"gate-{namespace}"
    resources = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    chosen = f"object.metadata.namespace == '{namespace}' && object.metadata.name.startsWith('{PREFIX}')"
    spec = {
        "matchConstraints": {"resourceRules": [resources]},
        "matchConditions": [{"name": "chosen", "expression": chosen}],
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": _PATCH}}],
    }
    await client.create(_POLICIES, {"metadata": {"name": name}, "spec": spec})
    await client.create(_BINDINGS, {"metadata": {"name": name}, "spec": {"policyName": name}})
    try:
        await until(lambda: is_gated(client, namespace), what="the queue gates pods")
        yield
    finally:
        for kind in (_BINDINGS, _POLICIES):
            with contextlib.suppress(NotFound):
                await client.delete(kind, name)


async def is_gated(client: Client, namespace: str) -> bool:
    """Return whether new pods are gated now: the API server follows its policies a moment later."""
    spec = {"containers": [{"name": "main", "image": "app:1"}]}
    probe = {"metadata": {"name": f"{PREFIX}probe"}, "spec": spec}
    found = msgspec.json.decode(await client.create_raw(PODS, probe, namespace, dry_run=True))
    return bool(found["spec"].get("schedulingGates"))


async def open_gates(client: Client, namespace: str, name: str) -> None:
    """Open all gates of a pod, as a queue does when it admits the pod."""
    await client.patch(PODS, name, {"spec": {"schedulingGates": None}}, namespace)
