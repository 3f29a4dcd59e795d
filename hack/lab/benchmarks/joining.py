"""Many targets in few clusters: each is a namespace of a cluster, with a Source there and a Target in the source."""

import json
from collections.abc import Mapping, Sequence

from agent.api.kinds import NAMESPACES, SECRETS, SERVICE_ACCOUNTS, SOURCES, TARGETS
from agent.api.names import NETWORK_DRIVER, SHORT_PREFIX
from agent.kube.client import Client
from hack.lab.benchmarks.lab import Lab
from hack.lab.benchmarks.manifests import moved, namespace
from hack.lab.sandbox import kubeconfig, manifests
from hack.lab.sandbox.faults import LossyProxy
from hack.lab.sandbox.manifests import Manifest
from hack.lab.sandbox.objects import apply


async def join(
    lab: Lab,
    name: str,
    *targets: Client,
    labels: Mapping[str, str] | None = None,
    by: Mapping[str, LossyProxy] | None = None,
    allow: Sequence[str] = (),
    driver: str = "",
) -> None:
    """Create a namespace in the source and in each target, and join them. The source's namespace gets the labels.

    :param by: proxies in front of API servers, by the name of the cluster
    :param allow: features that the targets allow in addition to the default ones
    :param driver: network driver of the targets; empty for the default
    """
    await lab.source.create(NAMESPACES, namespace(name, dict(labels or {})))
    for there in targets:
        target = moved(manifests.target(there.name), name)
        if driver:
            target["metadata"]["annotations"] = {SHORT_PREFIX + NETWORK_DRIVER: driver}
        made = moved(manifests.source(lab.names[0]), name)
        if allow:
            made["spec"] |= {"allow": list(allow)}
        await _lead(lab, there, made, target, (by or {}).get(there.name))


async def _lead(lab: Lab, there: Client, made: Manifest, target: Manifest, proxy: LossyProxy | None) -> None:
    here, source, name = lab.source, lab.names[0], target["metadata"]["namespace"]
    await there.create(NAMESPACES, namespace(name))
    await apply(there, SOURCES, made)
    await apply(there, SERVICE_ACCOUNTS, moved(manifests.service_account(source), name))
    server, authority = authority_of(lab, there.name)
    if proxy is not None:
        server, authority = proxy.url, proxy.authority
    config = kubeconfig.render(there.name, server, authority, token=await _token(there, name, source))
    await apply(here, SECRETS, moved(manifests.secret(there.name, config), name))
    await apply(here, TARGETS, target)


def authority_of(lab: Lab, cluster: str) -> tuple[str, bytes]:
    """Return the address and the CA certificate (PEM) of an API server."""
    return lab.sandbox[cluster].server, (lab.sandbox.directory / cluster / "pki" / "ca.crt").read_bytes()


async def _token(client: Client, namespace: str, account: str) -> str:
    path = SERVICE_ACCOUNTS.path(namespace, account, "token")
    answer = await client.session.request("POST", path, body=json.dumps(manifests.token_request()).encode())
    return str(json.loads(answer)["status"]["token"])
