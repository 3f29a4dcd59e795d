"""Promise 34: a stock operator runs in a target with its service account, and reconciles objects of its source."""

import functools
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from agent.api.kinds import CONFIGMAPS, NAMESPACES, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS, Kind
from agent.api.names import SHORT_PREFIX, SOURCE_API
from tests.controllers.installed import installed
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, Raw, on_virtual_node
from tests.e2e.manifests import DEPLOYMENTS
from tests.e2e.test_11_elect_by_default import ELECTS, elects, stock

pytestmark = [pytest.mark.realnodes]

GROUP = "example.org"
GREETINGS = Kind(GROUP, "v1", "greetings", "Greeting")
PROGRAM = "/programs/kubectl"
LOOP = f"""
list='{{range .items[*]}}{{.metadata.name}} {{.spec.text}}{{"\\n"}}{{end}}'
while true; do
  {PROGRAM} get greetings --output=jsonpath="$list" | while read -r name text; do
    {PROGRAM} create configmap "$name" --from-literal=text="$text" --dry-run=client --output=yaml |
      {PROGRAM} apply --filename=-
    {PROGRAM} patch greeting "$name" --subresource=status --type=merge --patch='{{"status":{{"said":"'"$text"'"}}}}'
  done
  sleep 1
done
"""
"""Create a ConfigMap for each Greeting, and record that in the Greeting's status."""


def chart(kubectl: str) -> tuple[tuple[Kind, Raw], ...]:
    """Return the objects of an operator's manifest, without its CRD."""
    rules = [
        {"apiGroups": [GROUP], "resources": ["greetings", "greetings/status"], "verbs": ["get", "list", "patch"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "patch"]},
    ]
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "greeter"}
    container = {
        "name": "main",
        "image": "flotilla.local/busybox:1",
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", LOOP],
        "env": [{"name": "HOME", "value": "/tmp"}],
        "volumeMounts": [{"name": "kubectl", "mountPath": PROGRAM}],
    }
    volume = {"name": "kubectl", "hostPath": {"path": kubectl, "type": "File"}}
    deployment = stock(manifests.deployment("greeter", 1, serviceAccountName="greeter", volumes=[volume]))
    deployment["spec"]["template"]["spec"]["containers"] = [container]
    # The annotation makes it an operator for the source's API server.
    deployment["spec"]["template"]["metadata"]["annotations"] = {SHORT_PREFIX + SOURCE_API: "true"}
    subject = {"kind": "ServiceAccount", "name": "greeter"}
    return (
        (SERVICE_ACCOUNTS, {"metadata": {"name": "greeter"}}),
        (ROLES, {"metadata": {"name": "greeter"}, "rules": rules}),
        (ROLE_BINDINGS, {"metadata": {"name": "greeter"}, "roleRef": reference, "subjects": [subject]}),
        (DEPLOYMENTS, deployment),
    )


@pytest_asyncio.fixture(loop_scope="session")
async def greetings(fleet: Fleet) -> AsyncIterator[None]:
    """Serve the kind in the source only."""
    async with installed([fleet.source], [(GREETINGS, None)]):
        yield


@pytest.mark.usefixtures("greetings")
async def test_an_operator_with_an_account_of_its_own_reconciles_from_a_target(fleet: Fleet, namespace: str) -> None:
    await fleet.source.patch(NAMESPACES, namespace, ELECTS)
    await elects(fleet, namespace, True)
    for kind, obj in chart(str(fleet.sandbox.plan.programs["kubectl"])):
        await fleet.source.create(kind, obj, namespace)
    (pod,) = await fleet.running(namespace, "greeter", 1)
    assert on_virtual_node(pod)

    async def said(text: str) -> bool:
        greeting = await fleet.source.get(GREETINGS, "morning", namespace)
        copy = await fleet.source.get(CONFIGMAPS, "morning", namespace)
        return bool((greeting.get("status") or {}).get("said") == copy["data"]["text"] == text)

    morning = {"apiVersion": GREETINGS.api_version, "kind": GREETINGS.name, "metadata": {"name": "morning"}}
    await fleet.source.create(GREETINGS, {**morning, "spec": {"text": "hello"}}, namespace)
    await fleet.until("it is reconciled", functools.partial(said, "hello"), about=namespace)
    await fleet.source.patch(GREETINGS, "morning", {"spec": {"text": "good-day"}}, namespace)
    await fleet.until("a change is reconciled", functools.partial(said, "good-day"), about=namespace)
