"""Many targets for the price of few clusters: each is a namespace of one, with a Source there and a Target here."""

import json
from collections.abc import Mapping

from agent.api.kinds import NAMESPACES, SECRETS, SERVICE_ACCOUNTS, SOURCES, TARGETS
from agent.kube.client import Client
from agent.sandbox import kubeconfig, manifests
from agent.sandbox.objects import apply
from hack.benchmarks.lab import Lab
from hack.benchmarks.manifests import moved, namespace


async def join(lab: Lab, name: str, there: Client, labels: Mapping[str, str] | None = None) -> None:
    """Make the namespace of this name in a target a target of the one in the source, which gets these labels."""
    here, source = lab.source, lab.names[0]
    await here.create(NAMESPACES, namespace(name, dict(labels or {})))
    await there.create(NAMESPACES, namespace(name))
    await apply(there, SOURCES, moved(manifests.source(source), name))
    await apply(there, SERVICE_ACCOUNTS, moved(manifests.service_account(source), name))
    server = lab.sandbox[there.name].server
    authority = (lab.sandbox.directory / there.name / "pki" / "ca.crt").read_bytes()
    config = kubeconfig.render(there.name, server, authority, token=await _token(there, name, source))
    await apply(here, SECRETS, moved(manifests.secret(there.name, config), name))
    await apply(here, TARGETS, moved(manifests.target(there.name), name))


async def _token(client: Client, namespace: str, account: str) -> str:
    path = SERVICE_ACCOUNTS.path(namespace, account, "token")
    answer = await client.session.request("POST", path, body=json.dumps(manifests.token_request()).encode())
    return str(json.loads(answer)["status"]["token"])
