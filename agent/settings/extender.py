"""Settings of the bind extender."""

import ipaddress
from dataclasses import dataclass

from agent.base.flags import InvalidSetting, flag
from agent.base.forms import ADDRESS, DURATION, FILE, or_empty
from agent.model import hostport


@dataclass(frozen=True, kw_only=True)
class Extender:
    """Bind extender for the candidate scheduler (mode reserve)."""

    extender_address: str = flag(
        or_empty(ADDRESS), "", "HOST:PORT of the bind extender for the candidate scheduler; empty: none is served"
    )
    extender_cert: str = flag(
        or_empty(FILE), "", "file of the extender's certificate; without one, it serves loopback only"
    )
    extender_key: str = flag(or_empty(FILE), "", "file of the certificate's key")
    extender_client_ca: str = flag(or_empty(FILE), "", "file of the CA whose client certificates the extender accepts")
    hold: float = flag(DURATION, "30s", "how long a candidate that has been given a node waits for its source's leave")

    def check(self) -> None:
        """Whoever reaches the extender can have candidates bound: it is on loopback, or knows its clients.

        Raises InvalidSetting.
        """
        if not self.extender_address:
            return
        host, port = hostport.split(self.extender_address)
        if not port:
            raise InvalidSetting(f"--extender-address={self.extender_address}: the port must be 1 or more")
        files = (self.extender_cert, self.extender_key, self.extender_client_ca)
        if any(files) and not all(files):
            raise InvalidSetting(
                "--extender-cert, --extender-key and --extender-client-ca belong together: give all three or none"
            )
        if not any(files) and not _is_loopback(host):
            raise InvalidSetting(
                f"--extender-address={self.extender_address}: is not a loopback address, and plain HTTP is served on"
                " those only: use 127.0.0.1, or give --extender-cert, --extender-key and --extender-client-ca"
            )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
