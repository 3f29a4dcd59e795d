"""Connection tracking in a node's kernel, which decides the endpoint of a reused client port."""

from collections.abc import Iterable
from itertools import pairwise

REMEMBERED_SECONDS = 10.0
"""Seconds for which the kernel keeps the endpoint of a reset connection, whatever kube-proxy has programmed
since.

Linux' default of nf_conntrack_tcp_timeout_close. A connection closed by the server is looked up again.
"""


def led_as_before(failures: Iterable[dict[str, float]]) -> list[dict[str, float]]:
    """Return the failed requests from a port on which another one had failed recently enough for the kernel to
    remember.

    :param failures: requests of clients with one address to one Service, as `requester` reports them
    """
    by_port: dict[float, list[dict[str, float]]] = {}
    for each in sorted(failures, key=lambda each: each["began"]):
        if each["port"]:
            by_port.setdefault(each["port"], []).append(each)
    return [later for found in by_port.values() for earlier, later in pairwise(found) if _follows(earlier, later)]


def _follows(earlier: dict[str, float], later: dict[str, float]) -> bool:
    return 0 <= later["began"] - earlier["ended"] <= REMEMBERED_SECONDS
