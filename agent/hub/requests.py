"""Certificate requests of members' agents: approve renewals, and report why other requests wait.

Watches  CertificateSigningRequests with the label of a cluster for the signer of clients; ManagedClusters.
Writes   approvals; `hubAcceptsClient` of clusters that a bootstrap token accepts; Events about requests.
Absent target: no effect, as members send requests to the hub, and the hub sends none to them.
All other requests wait for `flotilla hub accept`, with which a user approves one request by its key's fingerprint.
"""

import contextlib
from collections.abc import Iterable
from typing import Any

from agent.api.kinds import CERTIFICATE_REQUESTS, MANAGED_CLUSTERS, REGISTERED_CLUSTERS, SECRETS
from agent.api.names import SHORT_PREFIX
from agent.api.names.hub import AUTOMATICALLY_ACCEPTED, CLIENT_SIGNER, LABEL_ADDON, MEMBER_USER
from agent.api.names.ocm import LABEL_CLUSTER_NAME
from agent.base.clock import stamp
from agent.clusters.deps import Deps
from agent.hub import clusters
from agent.hub.approval import APPROVED, APPROVER, Accepts, Renews, Waits, decide, decided, token_of
from agent.hub.identities import Identity, Unrecognised, is_pending, read
from agent.kube.errors import NotFound
from agent.kube.reviews import is_allowed
from agent.kube.store import Object
from agent.runtime.controller import Controller

Raw = dict[str, Any]

ACCEPTED_REQUEST = SHORT_PREFIX + "accepted-request"
"""Annotation of a ManagedCluster: UID of the request whose bootstrap token made the hub accept the cluster."""
_TOKENS = "kube-system"
_RENEWAL = {
    "verb": "renew",
    "group": REGISTERED_CLUSTERS.group,
    "resource": REGISTERED_CLUSTERS.plural,
    "subresource": "clientcertificates",
}


class RequestController(Controller[str]):
    """Controller with the names of CertificateSigningRequests as keys."""

    name = "hubrequests"

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._client = deps.local.client
        signer = f"spec.signerName={CLIENT_SIGNER}"
        self._requests = deps.local.informer(CERTIFICATE_REQUESTS, labels=LABEL_CLUSTER_NAME, fields=signer)
        self._requests.store.index(LABEL_CLUSTER_NAME, _cluster_of)
        self._clusters = deps.placement.watch(MANAGED_CLUSTERS)
        self.watch(self._requests, lambda request: [request.name])
        self._clusters.subscribe(self.enqueuing(self._waiting), self._enqueue_all)
        deps.placement.on_turn(self._enqueue_all)

    async def reconcile(self, key: str) -> float | None:
        """Approve one request, or emit an event with the reason why it waits."""
        found, known = self._requests.store.get(("", key)), self._clusters.store
        if self._deps.placement.mode != "serve" or found is None or known is None:
            return None
        request = found.decode()
        if not is_pending(request) or LABEL_ADDON in found.labels:
            return None
        try:
            identity = read(request)
        except Unrecognised as error:
            self._warn(request, "RequestIgnored", f"it is not approved, as it is none of a member's agent: {error}")
            return None
        obj = known.get(("", identity.cluster))
        cluster = obj.decode() if obj is not None else None
        token = token_of(request["spec"], identity.cluster)
        if token and cluster is not None and _is_accepted_request(cluster, request):
            # An agent accepted the cluster for this request, and stopped before the approval.
            await self._approve(request, identity)
            return None
        decision = decide(identity, request["spec"], cluster, await self._token(token))
        if isinstance(decision, Renews):
            await self._renew(request, identity)
        elif isinstance(decision, Accepts) and cluster is not None:
            await self._accept(cluster, request, identity)
            await self._approve(request, identity)
        elif isinstance(decision, Waits):
            self._warn(request, decision.reason, decision.message)
        return None

    async def _renew(self, request: Raw, identity: Identity) -> None:
        spec = request["spec"]
        author = {"user": spec["username"], **{key: spec[key] for key in ("groups", "uid", "extra") if key in spec}}
        if await is_allowed(self._client, author, _RENEWAL):
            await self._approve(request, identity)
            return
        self._warn(
            request,
            "RenewalRefused",
            f"{identity.user} may not renew its certificate: its cluster is denied, is being deleted or has been"
            f" replaced; flotilla hub accept {identity.cluster} if it is to be a member again",
        )

    async def _token(self, token: str) -> Raw | None:
        """Return the Secret of a bootstrap token, by its ID; None if it does not exist."""
        if not token:
            return None
        try:
            return await self._client.get(SECRETS, f"bootstrap-token-{token}", _TOKENS)
        except NotFound:
            return None

    async def _accept(self, cluster: Raw, request: Raw, identity: Identity) -> None:
        """Accept a cluster because of a bootstrap token, at most once: the patch fails if the cluster has changed.

        Only the user of this request gets the rights: a former member of this name may still have a certificate.
        """
        notes = {
            AUTOMATICALLY_ACCEPTED: stamp(self._deps.clock.now()),
            ACCEPTED_REQUEST: request["metadata"]["uid"],
            MEMBER_USER: identity.user,
        }
        body = {"metadata": {"annotations": notes}, "spec": {"hubAcceptsClient": True}}
        await clusters.patch(self._client, self._clusters, cluster, body)
        self._deps.recorder.event(
            cluster, "Normal", "ManagedClusterAutoApproved", "accepted by a bootstrap token of its name"
        )

    async def _approve(self, request: Raw, identity: Identity) -> None:
        with contextlib.suppress(NotFound):
            approved = decided(request, "Approved", APPROVER, APPROVED, self._deps.clock.now())
            await self._client.update(CERTIFICATE_REQUESTS, approved, sub="approval")
            text = f"certificate of {identity.user} approved"
            self._deps.recorder.event(request, "Normal", "ManagedClusterCSRAutoApproved", text)

    def _warn(self, request: Raw, reason: str, message: str) -> None:
        self._deps.recorder.event(request, "Warning", reason, message)

    def _enqueue_all(self) -> None:
        for request in self._requests.store:
            self.queue.add(request.name)

    def _waiting(self, cluster: Object) -> Iterable[str]:
        """Return the requests of a changed cluster: the decision about them may have changed."""
        return [each.name for each in self._requests.store.by_index(LABEL_CLUSTER_NAME, cluster.name)]


def _is_accepted_request(cluster: Raw, request: Raw) -> bool:
    metadata = cluster["metadata"]
    accepted = (metadata.get("annotations") or {}).get(ACCEPTED_REQUEST)
    return bool((cluster.get("spec") or {}).get("hubAcceptsClient") and accepted == request["metadata"]["uid"])


def _cluster_of(request: Object) -> list[str]:
    return [request.labels.get(LABEL_CLUSTER_NAME, "")]
