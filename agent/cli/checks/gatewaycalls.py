"""Gateway addresses to call, with server names and certificate, read with the user's own rights."""

import asyncio
import base64
import binascii
from collections.abc import Sequence
from typing import Any

from agent.api.conditions import is_true
from agent.api.kinds import CLUSTER_SUMMARIES, NAMESPACES, SECRETS
from agent.api.names import SUMMARY_NAME
from agent.api.names.links import GATEWAY_SECRET
from agent.base.certificate_bundle import CERTIFICATE, KEY
from agent.base.certificates import Pair
from agent.base.clock import Clock
from agent.cli.checks.dialing import Dialer
from agent.cli.checks.view import Call
from agent.kube.client import Client
from agent.kube.errors import Forbidden, NotFound
from agent.model.gatewaypeer import health_name, is_address
from agent.model.gatewaytold import Told, read
from agent.model.servicelinks import CONNECTED

Raw = dict[str, Any]


class GatewayCalls:
    """Reads the gateway calls of one cluster. `unread` lists the objects that could not be read."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self.unread: list[tuple[str, str]] = []

    async def made(self, peers: Sequence[Raw]) -> tuple[Call, ...]:
        """Call the gateways of peers, and those of this cluster. Raises KubeError."""
        if not peers:
            return ()
        own = str((await self._client.get(NAMESPACES, "kube-system"))["metadata"]["uid"])
        dialer, told = Dialer(await self._certificate(), self._clock.now()), await self._told()
        calls = [
            _call(dialer, each, address, own)
            for each in peers
            for address in each["spec"].get("addresses") or ()
            if is_address(address)
        ]
        # Calls of the own gateways use a peer's server name, but no certificate: only the peer has its private key.
        first, plain = peers[0], Dialer(None, self._clock.now())
        name = health_name(first["metadata"]["namespace"], str(first["spec"]["uid"]), own)
        calls += [_own(plain, address, name, own, told.ca) for address in told.addresses]
        return tuple(await asyncio.gather(*calls))

    async def _told(self) -> Told:
        try:
            summary = await self._client.get(CLUSTER_SUMMARIES, SUMMARY_NAME)
        except NotFound:
            return Told("")
        except Forbidden as error:
            self.unread.append(("this cluster's own gateways", str(error)))
            return Told("")
        return read(summary["metadata"].get("annotations")) or Told("")

    async def _certificate(self) -> Pair | None:
        """Read certificate and key of this cluster's gateways; other keys of the Secret are not used."""
        try:
            found = await self._client.list(SECRETS, fields=f"metadata.name={GATEWAY_SECRET}")
            for data in (each.get("data") or {} for each in found):
                if CERTIFICATE in data and KEY in data:
                    return Pair(base64.b64decode(data[CERTIFICATE]), base64.b64decode(data[KEY]))
        except Forbidden as error:
            self.unread.append(("whether other clusters' gateways admit this one's", str(error)))
        except binascii.Error as error:
            self.unread.append((f"Secret {GATEWAY_SECRET}", str(error)))
        return None


async def _call(dialer: Dialer, peer: Raw, address: str, own: str) -> Call:
    metadata, spec = peer["metadata"], peer["spec"]
    name = health_name(metadata["namespace"], own, str(spec["uid"]))
    heard = await dialer.call(address, name, str(spec["uid"]), str(spec.get("ca", "")))
    connected = is_true((peer.get("status") or {}).get("conditions"), CONNECTED)
    return Call(address, heard, metadata["namespace"], metadata["name"], connected)


async def _own(dialer: Dialer, address: str, name: str, uid: str, ca: str) -> Call:
    return Call(address, await dialer.call(address, name, uid, ca))
