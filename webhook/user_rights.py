"""Rights of requesting users, which the API server reviews while it waits for the webhook's answer."""

import asyncio
from collections.abc import Mapping
from typing import Any

from agent.kube.client import Client
from agent.kube.errors import KubeError
from agent.kube.reviews import is_allowed

REVIEW_SECONDS = 3.0
"""Seconds that a review of a user's rights may take before the request is refused."""


class Unreviewed(Exception):
    """A right that could not be reviewed in time; the message is the reason."""


async def has_right(client: Client, user: Mapping[str, Any], attributes: Mapping[str, str]) -> bool:
    """Return whether a user is allowed the resource attributes. Raises Unreviewed."""
    try:
        async with asyncio.timeout(REVIEW_SECONDS):
            return await is_allowed(client, user, attributes)
    except (KubeError, TimeoutError) as error:
        raise Unreviewed(str(error) or f"no answer within {REVIEW_SECONDS:g} s") from error
