"""Annotations of a proxy pod in which the agent records facts about its delegate: pure."""

from collections.abc import Mapping
from typing import Any

from agent.api.names import following, links
from agent.model.podconditions import Followed, list_of_target
from agent.model.podranges import PodRanges, strangers


def records(
    proxy: Mapping[str, Any], status: dict[str, Any], ranges: PodRanges, followed: Followed
) -> dict[str, str | None]:
    """Return the merge patch of these annotations; {} if they are in line.

    :param status: of the delegate
    :param ranges: of the target
    """
    current = proxy["metadata"].get("annotations") or {}
    wanted = {
        links.ANNOTATION_POD_IPS: strangers(status, ranges),
        following.ANNOTATION_TARGET_CONDITIONS: list_of_target(proxy, status.get("conditions") or (), followed),
    }
    return {key: value or None for key, value in wanted.items() if value != current.get(key, "")}
