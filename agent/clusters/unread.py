"""Watches of a target that cannot be read although it answers: what they would tell is not known. Pure.

One object that cannot be read harms itself alone: the condition ObjectsReadable tells of it, the target stays ready.
"""

from collections.abc import Iterable

from agent.kube.errors import KubeError, StatusError
from agent.kube.informer import Informer


class Unread(KubeError):
    """What the target would tell cannot be read."""


def unread(needed: Informer, others: Iterable[Informer], now: float, patience: float) -> Unread | None:
    """What has not been read for `patience` seconds; None while all is.

    :param needed: without it nothing may be concluded, so why it fails does not matter
    :param others: of these an answer that says no is a matter of the feature that they serve
    :param now: seconds of the monotonic clock
    """
    for informer in (needed, *others):
        error, since = informer.error, informer.hearing.failing_since
        if error is None or since is None or now - since < patience:
            continue
        if informer is needed or not isinstance(error, StatusError):
            return Unread(f"{informer.kind.plural} there cannot be watched: {error}")
    return None
