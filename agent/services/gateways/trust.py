"""Trust of gateways: certificate of this cluster's gateways; their addresses and CA, published for its sources.

Watches  the Secret of the certificate and the Service of the gateways in the agent's namespace, nodes (if the Service
  is of type NodePort), the ClusterSummary, GatewayPeers.
Writes   the Secret: CA and certificate, renewed in time; the annotation `multicluster/gateway` of the ClusterSummary;
  an event if peers that lack a new CA delay the end of the earlier one.

No target is involved.
"""

import logging
import math
import time

from agent.api.kinds import CLUSTER_SUMMARIES, GATEWAY_PEERS, NODES, SECRETS, SERVICES
from agent.api.names import PROVIDER_KEY, PROVIDER_VALUE, SUMMARY_NAME
from agent.api.names.links import ANNOTATION_GATEWAY, ANNOTATION_TRUSTED_CA, GATEWAY_SECRET
from agent.base import certificates
from agent.base.certificate_bundle import Bundle, Lifetimes, is_held
from agent.clusters.deps import Deps
from agent.clusters.health.agent_health import is_readable
from agent.kube.store import Object
from agent.model.gatewaypeer import identity
from agent.model.gatewaytold import Told, digest, exposed, read, write
from agent.runtime.controller import Controller
from agent.runtime.rotation import Rotation, UnusableSecret

PORT_NAME = "gateway"
"""Name of the Service's port that peers call."""
_CHECK_SECONDS = _LOAD_SECONDS = 60.0
_UNTOLD_SECONDS = 0.5
_LIFETIMES = Lifetimes(issue=certificates.issue_identity)
_REASON = "NewCaAwaited"

log = logging.getLogger(__name__)


class GatewayTrustController(Controller[str]):
    """Reconciles the Secret of the gateways' certificate."""

    name = "gatewaytrust"
    workers = 1

    def __init__(self, deps: Deps, check: float = _CHECK_SECONDS, load: float = _LOAD_SECONDS) -> None:
        """:param check: seconds between checks whether a certificate has to be renewed
        :param load: seconds for gateways of peers to load a CA from their GatewayPeer"""
        super().__init__()
        self._deps = deps
        self._check = check
        self._load = load
        self._lacked_at = -math.inf
        """Time at which a peer last lacked the new CA."""
        self._service = (deps.home, deps.settings.gateway_service)
        self._rotation = Rotation(
            deps.local.client,
            deps.home,
            GATEWAY_SECRET,
            (identity(deps.cluster_uid),),
            _LIFETIMES,
            deps.clock,
            keeper="flotilla-agent",
            remedy="delete it, and another one is made",
            told=self._trusted,
            is_awaited=self._is_awaited,
        )
        self._checked = 0.0
        self._problem = ""
        self._awaited = b""
        """CA certificates for which a delay was last reported."""
        self._services = deps.local.informer(SERVICES)
        self._peers = deps.local.informer(GATEWAY_PEERS)
        self._nodes = deps.local.informer(NODES, labels=f"{PROVIDER_KEY}!={PROVIDER_VALUE}")
        self._summaries = deps.local.informer(CLUSTER_SUMMARIES, fields=f"metadata.name={SUMMARY_NAME}")
        secrets = deps.local.informer(SECRETS, deps.home, fields=f"metadata.name={GATEWAY_SECRET}")
        self.watch(self._services, lambda service: (GATEWAY_SECRET,) if service.key == self._service else ())
        self.watch(self._nodes, lambda node: (GATEWAY_SECRET,) if self._at_nodes() else ())
        self.watch(self._summaries, lambda summary: (GATEWAY_SECRET,))
        self.watch(secrets, lambda secret: ())
        self.watch(self._peers, lambda peer: ())
        secrets.subscribe(self._secret_changed)
        self.queue.add(GATEWAY_SECRET)

    async def reconcile(self, key: str) -> float | None:
        """Renew the certificate if due, and publish its CA with the addresses."""
        bundle = await self._bundle()
        summary = self._summaries.store.get(("", SUMMARY_NAME))
        if bundle is None or summary is None:
            return self._check if bundle is None else _UNTOLD_SECONDS
        told = write(Told(bundle.trusted.decode(), self._addresses()))
        if summary.annotations.get(ANNOTATION_GATEWAY) != told:
            body = {"metadata": {"annotations": {ANNOTATION_GATEWAY: told}}}
            self._summaries.absorb(await self._deps.local.client.patch_raw(CLUSTER_SUMMARIES, SUMMARY_NAME, body))
        return max(min(_UNTOLD_SECONDS, self._check), self._checked + self._check - time.monotonic())

    def _trusted(self) -> bytes:
        """Return the CA certificates published last, by this agent or its predecessor."""
        summary = self._summaries.store.get(("", SUMMARY_NAME))
        found = read(summary.annotations) if summary is not None and is_readable(summary) else None
        return found.ca.encode() if found is not None else b""

    async def _bundle(self) -> Bundle | None:
        """Return CA and certificate; None if the Secret is foreign or unusable."""
        known = self._rotation.bundle
        if known is not None and time.monotonic() - self._checked < self._check:
            return known
        try:
            bundle = await self._rotation.refresh()
        except UnusableSecret as error:
            if str(error) != self._problem:
                log.warning("this cluster's gateways have no certificate: %s", error)
            self._problem = str(error)
            return None
        self._problem = ""
        self._checked = time.monotonic()
        self._report_awaited(bundle)
        return bundle

    def _is_awaited(self, trusted: bytes) -> bool:
        """Return True while peers lack these CA certificates (PEM), or may not have loaded them yet."""
        if self._lacking(trusted):
            self._lacked_at = time.monotonic()
        return time.monotonic() - self._lacked_at < self._load

    def _lacking(self, trusted: bytes) -> list[Object]:
        """Return GatewayPeers of clusters to which their source has not written these CA certificates (PEM).

        Sources of an earlier version do not record it; for these, the minimum time has to be enough.
        """
        now = digest(trusted.decode())
        found = (each for each in self._peers.store if not each.deleting)
        return [each for each in found if each.annotations.get(ANNOTATION_TRUSTED_CA, now) != now]

    def _report_awaited(self, bundle: Bundle) -> None:
        """Log once, and emit an event, if peers delay the end of the earlier CA."""
        if not is_held(bundle, self._deps.clock.now(), _LIFETIMES):
            self._awaited = b""
            return
        lacking = sorted(self._lacking(bundle.trusted), key=lambda each: each.key)
        if not lacking or self._awaited == bundle.trusted:
            return
        self._awaited = bundle.trusted
        first, expiry = lacking[0], certificates.expiry(bundle.serving.certificate)
        message = (
            f"gateways of this cluster keep the certificate of their earlier CA until {expiry:%Y-%m-%d}, or until their"
            f" peers have the new CA. {len(lacking)} have not, such as that of {first.namespace}/{first.name}: let its"
            " source reach both clusters, or delete this object"
        )
        log.warning("%s", message)
        self._deps.recorder.event(first.decode(), "Warning", _REASON, message)

    def _addresses(self) -> tuple[str, ...]:
        """Return the addresses at which gateways of other clusters reach those of this one."""
        if given := self._deps.settings.gateway_address:
            return given
        service = self._services.store.get(self._service)
        nodes = (node.decode() for node in self._nodes.store) if self._at_nodes() else ()
        return tuple(exposed(service.decode(), nodes, PORT_NAME)) if service is not None else ()

    def _at_nodes(self) -> bool:
        service = self._services.store.get(self._service)
        return service is not None and service.decode()["spec"].get("type") == "NodePort"

    def _secret_changed(self, old: Object | None, new: Object | None) -> None:
        self._checked = 0.0
        self.queue.add(GATEWAY_SECRET)
