"""A cluster's certificate authority, and the certificates and keys of its processes. No I/O."""

import datetime
from collections.abc import Mapping, Sequence

from agent.base import certificates
from agent.base.certificates import Pair

LIFE = datetime.timedelta(days=365)
FRONT_PROXY = "front-proxy-client"
"""Client whose headers name the user in requests to servers of aggregated APIs."""

CLIENTS: Mapping[str, tuple[str, str]] = {
    "admin": ("flotilla-admin", "system:masters"),
    "kube-controller-manager": ("system:kube-controller-manager", ""),
    "kube-scheduler": ("system:kube-scheduler", ""),
    "kwok": ("flotilla-kwok", "system:masters"),
    "kubelet-client": ("kube-apiserver-kubelet-client", "system:masters"),
    "front-proxy": (FRONT_PROXY, ""),
}
"""Client certificates: user and group."""


class Authority:
    """Certificate authority of one cluster."""

    def __init__(self, cluster: str, now: datetime.datetime) -> None:
        self._now = now
        self.pair = certificates.authority(f"flotilla-sandbox-{cluster}", now, LIFE)

    def serving(self, hosts: Sequence[str]) -> Pair:
        """Issue a server's certificate for names and addresses."""
        return certificates.issue(self.pair, hosts, self._now, LIFE)

    def client(self, user: str, group: str = "") -> Pair:
        """Issue a client's certificate: its common name is the user, its organisation the group."""
        return certificates.issue_client(self.pair, user, group, self._now, LIFE)


def service_account_keys() -> tuple[bytes, bytes]:
    """Return a private and a public key (PEM) for tokens of service accounts."""
    key = certificates.new_key()
    return certificates.private_pem(key), certificates.public_pem(key)
