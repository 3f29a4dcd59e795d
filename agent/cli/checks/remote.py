"""Reads one target: its Target, its virtual node, and its cluster as far as the user may."""

import base64
import binascii
import contextlib

from agent.api.kinds import SECRETS
from agent.base import certificates
from agent.base.clock import Clock
from agent.cli.checks.about import read_cluster
from agent.cli.checks.access import not_granted
from agent.cli.checks.lookup import services_of
from agent.cli.checks.view import Credentials, TargetView
from agent.cli.fleet.source_queries import place_of
from agent.cli.fleet.target_queries import Connections
from agent.kube import kubeconfig as documents
from agent.kube.client import Client
from agent.kube.errors import InvalidConfig, KubeError
from agent.kube.store import Object
from agent.model.token import claims
from agent.targets.target import gather
from agent.targets.target.gather import Problem


async def read_target(source: Client, to: Connections, target: Object, node: Object | None, clock: Clock) -> TargetView:
    """Read a target's cluster as far as possible; `unread` of the result says why the rest could not be read."""
    told = TargetView(target.decode(), node.decode() if node is not None else None)
    try:
        place = place_of(target)
        if place is None:
            return told
        ends = await _credentials(source, place)
    except (Problem, KubeError) as error:
        return TargetView(told.manifest, told.node, unread=str(error))
    try:
        client = await to.to(target)
        cluster = await read_cluster(client, told.title, clock)
        missing = await not_granted(client, target.namespace)
    except (Problem, KubeError) as error:
        return TargetView(told.manifest, told.node, ends, unread=str(error))
    services = None
    with contextlib.suppress(KubeError):
        services = frozenset(await services_of(client, target.namespace))
    return TargetView(told.manifest, told.node, ends, cluster, missing, services=services)


async def _credentials(source: Client, place: gather.Reference) -> Credentials | None:
    secret = Object(SECRETS, await source.get_raw(SECRETS, place.secret[1], place.secret[0]))
    return read_credentials(str(place), gather.kubeconfig(place, secret), place.context)


def read_credentials(secret: str, kubeconfig: bytes, context: str = "") -> Credentials | None:
    """Return the credentials of a context's user, by default the current context's; None if the user is missing."""
    try:
        document = documents.document_of(kubeconfig)
        _, chosen = documents.context_of(document, context)
        user = documents.named(document, "users", "user", str(chosen.get("user")))
    except InvalidConfig:
        return None
    if user.get("client-certificate-data"):
        return _certificate(secret, str(user["client-certificate-data"]))
    if not user.get("token"):
        return None
    told = claims(str(user["token"]).strip())
    return Credentials(secret, told.issued, told.expires) if told is not None else Credentials(secret)


def _certificate(secret: str, encoded: str) -> Credentials | None:
    try:
        found = certificates.validity(base64.b64decode(encoded))
    except (ValueError, binascii.Error):
        return None
    return Credentials(secret, found.start, found.end, "client certificate")
