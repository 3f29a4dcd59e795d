"""Serving certificate of all virtual nodes of this agent: requested from a signer, renewed in time, kept only in
memory.

The agent acts like a kubelet with serverTLSBootstrap. Until the request is signed it serves a self-signed certificate,
like a kubelet without it. An API server that verifies kubelets (`--kubelet-certificate-authority`) rejects that one;
most do not verify.
"""

import asyncio
import base64
import datetime
import logging
import random
import ssl
from collections.abc import Callable
from typing import Any

import msgspec

from agent.api.conditions import find_condition, set_condition
from agent.api.kinds import CERTIFICATE_REQUESTS
from agent.base import certificates
from agent.base.certificates import Pair, PrivateKey
from agent.base.events import set_within
from agent.clusters.cluster import Cluster
from agent.clusters.stores.endpoints import NO_CERTIFICATE, SERVING, Served
from agent.kube.errors import Conflict, Forbidden, KubeError, NotFound
from agent.kube.informer import Informer
from agent.kube.store import Object

log = logging.getLogger(__name__)

Raw = dict[str, Any]

GROUP = "system:nodes"
USER = "system:node:admiralty"
"""Admiralty's user name: existing signers and approvers that accept it need no change."""
USAGES = ("digital signature", "server auth")
"""Usages for an elliptic key: since Kubernetes 1.27 the signer of kubelets does not require `key encipherment`."""
GENERATE_NAME = "admiralty-"
SIGN_SECONDS = 30.0
"""Seconds without a signature after which the missing signature is reported."""
RETRY_SECONDS = 300.0
"""Pause before a new request after one that was denied, has failed or was removed."""
_RENEW_BETWEEN = (0.7, 0.9)
"""Fraction of a certificate's lifetime until its renewal: chosen at random in this range, like the kubelet's."""


class _Outcome(msgspec.Struct, frozen=True):
    """Result of a request: a certificate, or the reason for having none."""

    certificate: bytes = b""
    problem: str = ""


class Certificate:
    """Keeps `pair` valid while it runs. Calls `changed` whenever the certificate changes."""

    def __init__(self, cluster: Cluster, address: str, signer: str, changed: Callable[[Pair], None]) -> None:
        self._cluster = cluster
        self._client = cluster.client
        self._address = address
        self._signer = signer
        self._changed = changed
        self._signed = False

    async def run(self, tell: Callable[[Served], None]) -> None:
        """Request, wait, use and renew until cancelled; calls `tell` with the state."""
        key = certificates.new_key()
        self._changed(self_signed(key, self._address))
        while True:
            key = certificates.new_key()
            pause = RETRY_SECONDS
            try:
                outcome = await self._request(key, tell)
            except KubeError as error:
                outcome = _Outcome(problem=_explain(error, self._signer))
                pause = RETRY_SECONDS if isinstance(error, Forbidden) else 5.0
            if outcome.certificate:
                try:
                    pair = Pair(outcome.certificate, certificates.private_pem(key))
                    pause = renew_in(pair.certificate, _now())
                    context(pair, "")
                except (ValueError, ssl.SSLError) as error:
                    outcome, pause = (
                        _Outcome(problem=f"the signer's certificate cannot be used: {error}"),
                        RETRY_SECONDS,
                    )
                else:
                    self._signed = True
                    self._changed(pair)
            tell(self._served(outcome.problem))
            await asyncio.sleep(pause)

    async def _request(self, key: PrivateKey, tell: Callable[[Served], None]) -> _Outcome:
        """Create a request, approve it if allowed, and wait while it exists. Raises KubeError."""
        manifest = request(key, self._address, self._signer)
        made = await self._client.create(CERTIFICATE_REQUESTS, manifest)
        name = made["metadata"]["name"]
        waiting = await self._approve(made)
        await self._deny_abandoned(made)
        informer = self._cluster.informer(CERTIFICATE_REQUESTS, fields=f"metadata.name={name}")
        try:
            return await _wait(informer, name, SIGN_SECONDS, lambda: tell(self._served(waiting)))
        finally:
            self._cluster.informers.drop(informer)

    async def _approve(self, made: Raw) -> str:
        """Approve a request; returns the message for the case that it is never signed."""
        name = made["metadata"]["name"]
        try:
            await self._decide(made, "Approved", "VirtualNode", "approved by the agent that asked for it")
        except Forbidden as error:
            return (
                f"nobody has approved certificate request {name}, and this agent may not ({error}):"
                f" approve it (kubectl certificate approve {name}), or let the agent approve for signer {self._signer}"
            )
        except (Conflict, NotFound) as error:
            log.info("certificate request %s: %s", name, error)
        return (
            f"signer {self._signer} has not signed certificate request {name}: name one that signs (--kubelet-signer)"
        )

    async def _deny_abandoned(self, made: Raw) -> None:
        """Deny requests of agents that ended before they had approved them, as the controller manager keeps those."""
        try:
            found = await self._client.list(CERTIFICATE_REQUESTS, fields=f"spec.signerName={self._signer}")
            for other in found:
                if is_abandoned(other, made):
                    await self._decide(other, "Denied", "Abandoned", "the agent that asked for it has ended")
        except KubeError as error:
            log.info("certificate requests that nobody waits for stay: %s", error)

    async def _decide(self, made: Raw, type: str, reason: str, message: str) -> None:
        """Approve or deny a request. Raises KubeError."""
        conditions = set_condition(made.get("status", {}).get("conditions"), type, "True", reason, message, _now())
        # Conditions of CertificateSigningRequests also have lastUpdateTime.
        for condition in conditions:
            condition["lastUpdateTime"] = condition["lastTransitionTime"]
        await self._client.update(CERTIFICATE_REQUESTS, {**made, "status": {"conditions": conditions}}, sub="approval")

    def _served(self, problem: str) -> Served:
        if not problem:
            return Served(SERVING, f"logs and exec are served with a certificate of signer {self._signer}")
        kind = "the one it has, until that expires" if self._signed else "one that it signed itself"
        return Served(NO_CERTIFICATE, f"{problem}. Meanwhile this node serves with {kind}")


async def _wait(informer: Informer, name: str, patience: float, impatient: Callable[[], None]) -> _Outcome:
    changed = asyncio.Event()
    stop = informer.subscribe(lambda old, new: changed.set())
    told = False
    try:
        try:
            async with asyncio.timeout(patience):
                await informer.synced.wait()
        except TimeoutError:
            told = True
            impatient()
            await informer.synced.wait()
        while True:
            changed.clear()
            outcome = outcome_of(informer.store.get(("", name)))
            if outcome is not None:
                return outcome
            if not await set_within(changed, None if told else patience):
                told = True
                impatient()
    finally:
        stop()


def outcome_of(found: Object | None) -> _Outcome | None:
    """Return the result of a request; None while it is pending."""
    if found is None:
        return _Outcome(problem="the certificate request was removed before it was signed")
    status = found.decode().get("status") or {}
    if status.get("certificate"):
        return _Outcome(certificate=base64.b64decode(status["certificate"]))
    for type in ("Denied", "Failed"):
        condition = find_condition(status.get("conditions"), type)
        if condition is not None:
            text = condition.get("message") or condition.get("reason") or ""
            return _Outcome(problem=f"certificate request {found.name} is {type.lower()}: {text}")
    return None


def is_abandoned(other: Raw, made: Raw) -> bool:
    """Return whether a request is an earlier, undecided one of the account that made this one."""
    return bool(
        other["metadata"]["uid"] != made["metadata"]["uid"]
        and other["metadata"]["name"].startswith(GENERATE_NAME)
        and other["metadata"]["creationTimestamp"] <= made["metadata"]["creationTimestamp"]
        and other["spec"].get("username") == made["spec"].get("username")
        and not other.get("status", {}).get("conditions")
    )


def request(key: PrivateKey, address: str, signer: str) -> Raw:
    """Return a CertificateSigningRequest for a server at this address."""
    pem = certificates.signing_request(key, USER, GROUP, [address])
    return {
        "apiVersion": CERTIFICATE_REQUESTS.api_version,
        "kind": CERTIFICATE_REQUESTS.name,
        "metadata": {"generateName": GENERATE_NAME, "name": ""},
        "spec": {"request": base64.b64encode(pem).decode(), "signerName": signer, "usages": list(USAGES)},
    }


def self_signed(key: PrivateKey, address: str) -> Pair:
    """Return a self-signed certificate."""
    return certificates.self_signed(key, USER, GROUP, [address])


def renew_in(certificate: bytes, now: datetime.datetime) -> float:
    """Seconds until a certificate should be renewed, at least one."""
    start, end = certificates.validity(certificate)
    due = start + (end - start) * random.uniform(*_RENEW_BETWEEN)
    return max(1.0, (due - now).total_seconds())


def context(shown: Pair, client_authority: str) -> ssl.SSLContext:
    """Return the server's TLS context, which verifies client certificates with this CA (PEM bundle, may be empty).

    A client without a certificate may connect, since it may have a token; an invalid certificate fails the handshake.
    """
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    # A resumed session would bring a certificate that is no longer looked at.
    made.num_tickets = 0
    made.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    made.set_alpn_protocols(["http/1.1"])
    shown.load(made)
    if client_authority:
        made.load_verify_locations(cadata=client_authority)
        made.verify_mode = ssl.CERT_OPTIONAL
        # The bundle may hold only an intermediate CA: the administrator has chosen to trust it.
        made.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return made


def _explain(error: KubeError, signer: str) -> str:
    if isinstance(error, Forbidden):
        return f"this agent may not create certificate requests for signer {signer}: {error}"
    return f"no certificate: {error}"


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
