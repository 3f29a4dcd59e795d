"""Trust of gateways: certificate of this cluster's gateways; their addresses and CA, published for its sources.

Watches  the Secret of the certificate and the Service of the gateways in the agent's namespace, nodes (if the Service
  is of type NodePort), the ClusterSummary.
Writes   the Secret: CA and certificate, renewed in time; the annotation `multicluster/gateway` of the ClusterSummary.

No target is involved.
"""

import logging
import time

from agent.api.kinds import CLUSTER_SUMMARIES, NODES, SECRETS, SERVICES
from agent.api.names import PROVIDER_KEY, PROVIDER_VALUE, SUMMARY_NAME
from agent.api.names.links import ANNOTATION_GATEWAY, GATEWAY_SECRET
from agent.base import certificates
from agent.base.certificate_bundle import Bundle, Lifetimes
from agent.clusters.deps import Deps
from agent.clusters.health.agent_health import is_readable
from agent.kube.store import Object
from agent.model.gatewaypeer import identity
from agent.model.gatewaytold import Told, exposed, read, write
from agent.runtime.controller import Controller
from agent.runtime.rotation import Rotation, UnusableSecret

PORT_NAME = "gateway"
"""Name of the Service's port that peers call."""
_CHECK_SECONDS = 60.0
"""Pause in seconds between checks whether a certificate has to be renewed."""
_UNTOLD_SECONDS = 0.5

log = logging.getLogger(__name__)


class GatewayTrustController(Controller[str]):
    """Reconciles the Secret of the gateways' certificate."""

    name = "gatewaytrust"
    workers = 1

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._service = (deps.home, deps.settings.gateway_service)
        self._rotation = Rotation(
            deps.local.client,
            deps.home,
            GATEWAY_SECRET,
            (identity(deps.cluster_uid),),
            Lifetimes(issue=certificates.issue_identity),
            deps.clock,
            keeper="flotilla-agent",
            remedy="delete it, and another one is made",
            told=self._trusted,
        )
        self._checked = 0.0
        self._problem = ""
        self._services = deps.local.informer(SERVICES)
        self._nodes = deps.local.informer(NODES, labels=f"{PROVIDER_KEY}!={PROVIDER_VALUE}")
        self._summaries = deps.local.informer(CLUSTER_SUMMARIES, fields=f"metadata.name={SUMMARY_NAME}")
        secrets = deps.local.informer(SECRETS, deps.home, fields=f"metadata.name={GATEWAY_SECRET}")
        self.watch(self._services, lambda service: (GATEWAY_SECRET,) if service.key == self._service else ())
        self.watch(self._nodes, lambda node: (GATEWAY_SECRET,) if self._at_nodes() else ())
        self.watch(self._summaries, lambda summary: (GATEWAY_SECRET,))
        self.watch(secrets, lambda secret: ())
        secrets.subscribe(self._secret_changed)
        self.queue.add(GATEWAY_SECRET)

    async def reconcile(self, key: str) -> float | None:
        """Renew the certificate if due, and publish its CA with the addresses."""
        bundle = await self._bundle()
        summary = self._summaries.store.get(("", SUMMARY_NAME))
        if bundle is None or summary is None:
            return _CHECK_SECONDS if bundle is None else _UNTOLD_SECONDS
        told = write(Told(bundle.trusted.decode(), self._addresses()))
        if summary.annotations.get(ANNOTATION_GATEWAY) != told:
            body = {"metadata": {"annotations": {ANNOTATION_GATEWAY: told}}}
            self._summaries.absorb(await self._deps.local.client.patch_raw(CLUSTER_SUMMARIES, SUMMARY_NAME, body))
        return max(_UNTOLD_SECONDS, self._checked + _CHECK_SECONDS - time.monotonic())

    def _trusted(self) -> bytes:
        """Return the CA certificates published last, by this agent or its predecessor."""
        summary = self._summaries.store.get(("", SUMMARY_NAME))
        found = read(summary.annotations) if summary is not None and is_readable(summary) else None
        return found.ca.encode() if found is not None else b""

    async def _bundle(self) -> Bundle | None:
        """Return CA and certificate; None if the Secret is foreign or unusable."""
        known = self._rotation.bundle
        if known is not None and time.monotonic() - self._checked < _CHECK_SECONDS:
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
        return bundle

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
