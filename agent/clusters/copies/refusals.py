"""Permanent and temporary refusals by a target, and their messages to users."""

import contextlib
from collections.abc import Iterator

from agent.api.kinds import Kind
from agent.api.roles import feature_of
from agent.clusters.target import Target
from agent.kube.errors import Conflict, Forbidden, ServerError, StatusError, TooManyRequests, Unauthorized, Unreachable

PASSING = (Conflict, ServerError, TooManyRequests, Unauthorized)
"""Errors that may pass without a change by the user."""
NOT_OURS = "an object of that name exists there that is not ours; rename or delete it there, or use another name here"

HELD = "its old copy there is being deleted and held by finalizers"


class Blocked(Exception):
    """The target, or an object in it, prevents a write; the message names the obstacle and the remedy."""


def not_copied(title: str, target: Target, reason: str) -> str:
    """Return the message about an object that could not be copied to a target. `title` is its name for users."""
    return f"{title} is not copied to target {target.title}: {reason}"


def remedy(kind: Kind) -> str:
    """Return the remedy if a target does not grant an optional feature, to append to the reason; empty for
    other kinds.
    """
    feature = feature_of(kind)
    return f"; to allow it, `flotilla join --allow {feature}`, or spec.allow of its Source" if feature else ""


@contextlib.contextmanager
def reporting_refusals(title: str, target: Target, kind: Kind) -> Iterator[None]:
    """Translate errors of requests to a target about an object.

    Raises Blocked for permanent refusals, other errors unchanged. An unreachable target is probed at once.
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
