"""What the kernel of a node remembers of connections: where it sends the next one from the same port of a client."""

from collections.abc import Iterable
from itertools import pairwise

REMEMBERED_SECONDS = 10.0
"""So long a connection that was reset is remembered, and its port led as before, whatever kube-proxy says by now.

By Linux' default of nf_conntrack_tcp_timeout_close. A connection that a server has ended is looked up anew.
"""


def led_as_before(failures: Iterable[dict[str, float]]) -> list[dict[str, float]]:
    """Those that came from a port on which another one had failed no longer ago than the kernel remembers.

    :param failures: requests of clients with one address to one Service, as `requester` tells of them
    """
    by_port: dict[float, list[dict[str, float]]] = {}
    for each in sorted(failures, key=lambda each: each["began"]):
        if each["port"]:
            by_port.setdefault(each["port"], []).append(each)
    return [later for found in by_port.values() for earlier, later in pairwise(found) if _follows(earlier, later)]


def _follows(earlier: dict[str, float], later: dict[str, float]) -> bool:
    return 0 <= later["began"] - earlier["ended"] <= REMEMBERED_SECONDS
