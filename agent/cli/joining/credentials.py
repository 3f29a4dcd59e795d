"""Kubeconfigs for a source: validity of their address and token, and new tokens."""

import contextlib

import aiohttp

from agent.api.kinds import CHAPERONS, CLUSTER_SUMMARIES, SERVICE_ACCOUNTS
from agent.base.clock import SystemClock
from agent.cli.joining import manifests
from agent.cli.joining.manifests import Names, Raw
from agent.cli.options import Failed, opened
from agent.kube import config, kubeconfig
from agent.kube.client import Client
from agent.kube.errors import InvalidConfig, KubeError, StatusError, Unauthorized, Unreachable
from agent.kube.kubeconfig import Entry
from agent.model import token

KEEP_UNTIL = 0.8
"""Fraction of a token's lifetime; a younger token is kept, because the source's agent renews it at that age."""
REQUEST_SECONDS = 10.0


async def answers(entry: Entry) -> str:
    """Try an address like an agent; return why it does not answer, empty if it does.

    Raises Failed for a wrong certificate.
    """
    try:
        async with opened(_connection(entry), seconds=REQUEST_SECONDS) as client:
            await client.session.request("GET", "/version", resource="version")
    except StatusError:
        # Any HTTP status proves that the server answers.
        return ""
    except Unreachable as error:
        if isinstance(error.__cause__, aiohttp.ClientSSLError):
            raise Failed(
                f"{entry['server']} shows a certificate that is not trusted ({error}): give the CA that has signed it,"
                " --ca-file, or a --server that the certificate names"
            ) from error
        return str(error)
    return ""


async def ask(found: Entry, names: Names) -> None:
    """Ask a target with a kubeconfig what the source's agent asks first. Raises KubeError."""
    async with opened(config.of_document(found), seconds=REQUEST_SECONDS) as client:
        chaperons = CHAPERONS.path(None if names.cluster_scoped else names.target_namespace)
        for kind, path in ((CHAPERONS, chaperons), (CLUSTER_SUMMARIES, CLUSTER_SUMMARIES.path())):
            await client.session.request("GET", path, params={"limit": "1"}, resource=kind.plural)


async def is_good(text: str, entry: Entry, names: Names) -> bool:
    """Return True if a token is the source's, is valid for some time, and the target does not refuse it."""
    claims = token.claims(text)
    if claims is None or (claims.namespace, claims.account) != (names.target_namespace, names.source):
        return False
    if claims.used(SystemClock().now()) > KEEP_UNTIL:
        return False
    try:
        await ask(kubeconfig.with_token("x", entry, "", text), names)
    except Unauthorized:
        return False
    except KubeError:
        # The account may lack rights for now, or the server be unreachable: neither proves that the token is invalid.
        return True
    return True


async def request_token(client: Client, namespace: str, account: str, seconds: int) -> str:
    """Request a token of a service account. The API server may shorten the requested lifetime."""
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "metadata": {"name": account},
        "spec": {"expirationSeconds": seconds},
    }
    answer = await client.create(SERVICE_ACCOUNTS, request, namespace, sub="token")
    return str(answer["status"]["token"])


def read(secret: Raw | None) -> Entry | None:
    """Return the kubeconfig of a Secret, None if it has no readable one."""
    if secret is None:
        return None
    with contextlib.suppress(InvalidConfig, ValueError):
        return kubeconfig.document_of(manifests.kubeconfig_of(secret))
    return None


def old_token(secret: Raw | None) -> str:
    """Return the token in a Secret, empty without one."""
    with contextlib.suppress(InvalidConfig):
        found = read(secret)
        return kubeconfig.token_of(found) if found else ""
    return ""


def _connection(entry: Entry) -> config.Connection:
    document = kubeconfig.with_token("x", entry, "", "")
    return config.of_document(document)
