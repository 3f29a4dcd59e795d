"""What a target refuses for good, told from what may pass, and the words in which users hear of it."""

import contextlib
from collections.abc import Iterator

from agent.api.kinds import Kind
from agent.api.roles import feature_of
from agent.clusters.target import Target
from agent.kube.errors import Conflict, Forbidden, ServerError, StatusError, TooManyRequests, Unauthorized, Unreachable

PASSING = (Conflict, ServerError, TooManyRequests, Unauthorized)
"""Answers after which another try may go better."""
NOT_OURS = "an object of that name exists there that is not ours; rename or delete it there, or use another name here"

HELD = "its old copy there is being deleted and held by finalizers"


class Blocked(Exception):
    """The target, or an object in it, does not let us; the message says which, and what to do."""


def not_copied(title: str, target: Target, reason: str) -> str:
    """What a user is told of an object, called as users call it, that is not in a target where it should be."""
    return f"{title} is not copied to target {target.title}: {reason}"


def remedy(kind: Kind) -> str:
    """What to do where a target does not grant a feature of ours, to be put behind the reason; empty for no feature."""
    feature = feature_of(kind)
    return f"; to allow it, `flotilla join --allow {feature}`, or spec.allow of its Source" if feature else ""


@contextlib.contextmanager
def reporting_refusals(title: str, target: Target, kind: Kind) -> Iterator[None]:
    """Around requests to a target about an object of a kind.

    Raises Blocked for what is refused for good; everything else as it was. A silent target is probed at once.
    """
    try:
        yield
    except Unreachable:
        target.probe_now()
        raise
    except PASSING:
        raise
    except StatusError as error:
        hint = remedy(kind) if isinstance(error, Forbidden) else ""
        raise Blocked(not_copied(title, target, f"{error}{hint}")) from error
