"""Double of Open Cluster Management's registration agent: the requests that it sends to its hub, in their order.

With its bootstrap kubeconfig it asks for its rights, creates its ManagedCluster and a certificate request, and waits.
With the certificate it watches its own objects, reports its state and renews its lease.
"""

import asyncio
import base64
import contextlib
import hashlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID

from agent.api.conditions import find_condition, set_condition
from agent.api.kinds import (
    CERTIFICATE_REQUESTS,
    LEASES,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    SELF_ACCESS_REVIEWS,
)
from agent.base import certificates
from agent.base.clock import micro_stamp
from agent.kube import config
from agent.kube.client import Client
from agent.kube.errors import NotFound
from agent.kube.informer import Informer
from agent.kube.session import Session
from tests.waiting import until

Raw = dict[str, Any]

COMMON = "system:open-cluster-management"
LABEL = "open-cluster-management.io/cluster-name"
SIGNER = "kubernetes.io/kube-apiserver-client"
LEASE = "managed-cluster-lease"
BOOTSTRAP_RIGHTS = (
    (MANAGED_CLUSTERS, "create", ""),
    (MANAGED_CLUSTERS, "get", ""),
    (CERTIFICATE_REQUESTS, "create", ""),
    (CERTIFICATE_REQUESTS, "get", ""),
    (CERTIFICATE_REQUESTS, "list", ""),
    (CERTIFICATE_REQUESTS, "watch", ""),
    (MANAGED_CLUSTER_SETS, "create", "join"),
)


@dataclass
class RegistrationAgent:
    """An agent of one cluster. `hub` is the entry of the hub in its kubeconfig."""

    cluster: str
    hub: Raw
    bootstrap: Raw
    """User of the bootstrap kubeconfig."""
    agent: str = "agent"
    skew: timedelta = timedelta()
    """Time by which its clock is ahead."""
    announces: int = 0
    """Seconds between renewals that it writes into its lease, as agents of Flotilla do; 0 for none."""
    key: certificates.PrivateKey = field(default_factory=certificates.new_key)
    certificate: bytes = b""

    @property
    def user(self) -> str:
        return f"{COMMON}:{self.cluster}:{self.agent}"

    @property
    def fingerprint(self) -> str:
        """Fingerprint of its key, as it prints it."""
        encoding, form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        return "sha256:" + hashlib.sha256(self.key.public_key().public_bytes(encoding, form)).hexdigest()

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """Yield a client: with its certificate if it has one, else with its bootstrap kubeconfig."""
        user = self.bootstrap
        if self.certificate:
            pair = (self.certificate, certificates.private_pem(self.key))
            keys = ("client-certificate-data", "client-key-data")
            user = {key: base64.b64encode(pem).decode() for key, pem in zip(keys, pair, strict=True)}
        document = {
            "current-context": "hub",
            "clusters": [{"name": "hub", "cluster": self.hub}],
            "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "agent"}}],
            "users": [{"name": "agent", "user": user}],
        }
        async with Session(config.of_document(document), name=self.cluster) as session:
            yield Client(session)

    async def lacks(self) -> list[str]:
        """Return the bootstrap rights that its own reviews find missing."""
        missing = []
        async with self.client() as client:
            for kind, verb, sub in BOOTSTRAP_RIGHTS:
                attributes = {"group": kind.group, "resource": kind.plural, "verb": verb, "subresource": sub}
                review = {
                    "apiVersion": SELF_ACCESS_REVIEWS.api_version,
                    "kind": SELF_ACCESS_REVIEWS.name,
                    "metadata": {},
                    "spec": {"resourceAttributes": attributes},
                }
                answer = await client.create(SELF_ACCESS_REVIEWS, review)
                if not answer["status"]["allowed"]:
                    missing.append(f"{verb} {kind.plural}")
        return missing

    async def register(self, **spec: Any) -> None:
        """Read the ManagedCluster, and create it if it is missing."""
        async with self.client() as client:
            try:
                await client.get(MANAGED_CLUSTERS, self.cluster)
            except NotFound:
                annotations = {"agent.open-cluster-management.io/klusterlet": "1"}
                manifest = {
                    "apiVersion": MANAGED_CLUSTERS.api_version,
                    "kind": MANAGED_CLUSTERS.name,
                    "metadata": {"name": self.cluster, "annotations": annotations},
                    "spec": {"hubAcceptsClient": False, **spec},
                }
                await client.create(MANAGED_CLUSTERS, manifest)

    async def request(self, **changes: Any) -> str:
        """Create a certificate request as the agent does; return its name. Tests change parts of it."""
        labels = f"{LABEL}={self.cluster}"
        async with self.client() as client, self._watching(client, CERTIFICATE_REQUESTS, labels=labels):
            made = await client.create(CERTIFICATE_REQUESTS, self.manifest(**changes))
        return str(made["metadata"]["name"])

    def manifest(
        self,
        user: str = "",
        organisations: tuple[str, ...] = (),
        usages: tuple[str, ...] = ("digital signature", "key encipherment", "client auth"),
        hosts: tuple[str, ...] = (),
        label: str = "",
    ) -> Raw:
        """Return its certificate request."""
        given = organisations or (f"{COMMON}:{self.cluster}", f"{COMMON}:managed-clusters")
        subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in given]
        subject.append(x509.NameAttribute(NameOID.COMMON_NAME, user or self.user))
        builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName(list(map(x509.DNSName, hosts))), critical=False)
        pem = builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        spec = {"request": base64.b64encode(pem).decode(), "signerName": SIGNER, "usages": list(usages)}
        labels = {LABEL: label or self.cluster}
        metadata = {"generateName": f"{self.cluster}-", "labels": labels}
        head = {"apiVersion": CERTIFICATE_REQUESTS.api_version, "kind": CERTIFICATE_REQUESTS.name}
        return {**head, "metadata": {**metadata, "name": ""}, "spec": spec}

    async def signed(self, name: str) -> None:
        """Wait until a request is signed, and use the certificate from then on."""
        async with self.client() as client:

            async def certificate() -> str:
                found = await client.get(CERTIFICATE_REQUESTS, name)
                return str((found.get("status") or {}).get("certificate") or "")

            self.certificate = base64.b64decode(await until(certificate, what="a signed certificate"))

    async def renew(self) -> None:
        """Ask for another certificate with a new key, and use it."""
        former, self.key = self.key, certificates.new_key()
        pending = self.manifest()
        new, self.key = self.key, former
        async with self.client() as client:
            name = (await client.create(CERTIFICATE_REQUESTS, pending))["metadata"]["name"]

            async def certificate() -> str:
                found = await client.get(CERTIFICATE_REQUESTS, name)
                return str((found.get("status") or {}).get("certificate") or "")

            signed = await until(certificate, what="a renewed certificate")
        self.key, self.certificate = new, base64.b64decode(signed)

    async def serve(self) -> None:
        """Report its state and renew its lease until cancelled, as the agent does with its certificate."""
        async with (
            self.client() as client,
            self._watching(client, MANAGED_CLUSTERS, fields=f"metadata.name={self.cluster}") as watched,
            self._watching(client, CERTIFICATE_REQUESTS, labels=f"{LABEL}={self.cluster}"),
            self._watching(client, MANAGED_CLUSTER_ADDONS, self.cluster),
        ):
            while True:
                found = watched.store.get(("", self.cluster))
                cluster = found.decode() if found is not None else {}
                conditions = (cluster.get("status") or {}).get("conditions")
                accepted = find_condition(conditions, "HubAcceptedManagedCluster") or {}
                if accepted.get("status") == "True":
                    await self.report(client)
                    await self.beat(client)
                await asyncio.sleep(min(cluster.get("spec", {}).get("leaseDurationSeconds") or 60, 1))

    async def report(self, client: Client, **status: Any) -> None:
        """Write its state in one patch of the status, if it differs."""
        cluster = await client.get(MANAGED_CLUSTERS, self.cluster)
        old = cluster.get("status") or {}
        clock = find_condition(old.get("conditions"), "ManagedClusterConditionClockSynced") or {}
        if clock.get("status") == "False":
            return
        conditions = old.get("conditions")
        for each in (
            ("ManagedClusterJoined", "True", "ManagedClusterJoined", "Managed cluster joined"),
            (
                "ManagedClusterConditionAvailable",
                "True",
                "ManagedClusterAvailable",
                "Managed cluster is available",
            ),
        ):
            conditions = set_condition(conditions, *each, datetime.now(UTC))  # type: ignore[arg-type]
        new = {
            "conditions": conditions,
            "version": {"kubernetes": "v1.36.3"},
            "capacity": {"cpu": "4"},
            "allocatable": {"cpu": "4"},
            **status,
        }
        if any(old.get(key) != value for key, value in new.items()):
            guard = {key: cluster["metadata"][key] for key in ("uid", "resourceVersion")}
            await client.patch(MANAGED_CLUSTERS, self.cluster, {"metadata": guard, "status": new}, sub="status")

    async def beat(self, client: Client) -> None:
        """Renew its lease: read it, and replace it."""
        lease = await client.get(LEASES, LEASE, self.cluster)
        lease["spec"]["renewTime"] = micro_stamp(datetime.now(UTC) + self.skew)
        if self.announces:
            lease["spec"]["leaseDurationSeconds"] = self.announces
        await client.update(LEASES, lease)

    @contextlib.asynccontextmanager
    async def _watching(
        self, client: Client, kind: Any, namespace: str | None = None, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Informer]:
        """List and watch during the block. Fails if the API server refuses the agent."""
        informer = Informer(client, kind, namespace, labels=labels, fields=fields)
        task = asyncio.ensure_future(informer.run())
        try:
            await until(_is_read(informer), what=f"{kind} can be watched")
            yield informer
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def _is_read(informer: Informer) -> Callable[[], bool]:
    def is_read() -> bool:
        if informer.error is not None:
            raise AssertionError(f"the agent is refused: {informer.error}")
        return informer.synced.is_set()

    return is_read
