"""Certificate requests of clusters that want to join, as a person sees them."""

from collections.abc import Iterable
from typing import Any

import msgspec

from agent.api.kinds import CERTIFICATE_REQUESTS
from agent.api.names.hub import CLIENT_SIGNER, LABEL_ADDON
from agent.api.names.ocm import LABEL_CLUSTER_NAME
from agent.cli.options import Failed
from agent.hub.identities import DECIDED, Identity, Unrecognised, is_pending, read
from agent.kube.client import Client

Raw = dict[str, Any]

_DECIDED = tuple(each.lower() for each in DECIDED)
_KEY_LEAST = len("sha256:") + 16
"""Characters of a fingerprint that have to be typed at least."""


class Asked(msgspec.Struct, frozen=True):
    """A certificate request of a member's agent."""

    name: str
    cluster: str
    requester: str
    created: str
    state: str
    uid: str
    key: str = ""
    user: str = ""

    @property
    def is_decided(self) -> bool:
        """Whether the request is approved or denied, or has failed."""
        return self.state in _DECIDED


async def requests(client: Client, cluster: str = "") -> list[Asked]:
    """Return the requests of all members' agents, or of one cluster's. Raises KubeError."""
    labels = f"{LABEL_CLUSTER_NAME}={cluster}" if cluster else LABEL_CLUSTER_NAME
    found = await client.list(CERTIFICATE_REQUESTS, labels=labels, fields=f"spec.signerName={CLIENT_SIGNER}")
    return [_asked(each) for each in found if LABEL_ADDON not in each["metadata"]["labels"]]


def _asked(request: Raw) -> Asked:
    metadata, spec = request["metadata"], request["spec"]
    identity: Identity | None
    try:
        identity, state = read(request), "waits"
    except Unrecognised as error:
        identity, state = None, f"ignored: {error}"
    if not is_pending(request):
        conditions = request["status"]["conditions"]
        state = next(each["type"] for each in conditions if each["type"] in DECIDED).lower()
    return Asked(
        metadata["name"],
        metadata["labels"][LABEL_CLUSTER_NAME],
        spec.get("username", ""),
        metadata["creationTimestamp"],
        state,
        metadata["uid"],
        identity.key if identity is not None else "",
        identity.user if identity is not None else "",
    )


def chosen(found: Iterable[Asked], cluster: str, key: str) -> Asked | None:
    """Return the one request to accept; None if none waits. Raises Failed if several keys fit, or none."""
    waiting = [each for each in found if each.state == "waits"]
    if key and len(key) < _KEY_LEAST:
        raise Failed(f"--key {key}: give at least {_KEY_LEAST} characters of it, from sha256: on")
    fitting = [each for each in waiting if each.key.startswith(key)]
    keys = sorted({each.key for each in fitting})
    if key and waiting and not fitting:
        others = ", ".join(sorted({each.key for each in waiting}))
        raise Failed(f"no request of {cluster} has the key {key} (there is: {others}): another one asks by this name")
    if len(keys) > 1:
        raise Failed(
            f"several agents ask to be {cluster}: name the one that you mean by the fingerprint that it prints,"
            f" --key {' or '.join(keys)}; flotilla hub reject {cluster} --key denies the others"
        )
    return max(fitting, key=lambda each: each.created, default=None)
