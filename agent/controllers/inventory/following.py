"""Which kinds a target lets us bring with pods, asked of the target itself."""

import contextlib
import logging
import time
from dataclasses import dataclass, field

from agent.api.kinds import PERSISTENT_VOLUME_CLAIMS, SERVICE_ACCOUNTS
from agent.base.backoff import Backoff
from agent.clusters.rights import missing
from agent.clusters.target import Target
from agent.kube.errors import Forbidden, KubeError

log = logging.getLogger(__name__)

_KINDS = (PERSISTENT_VOLUME_CLAIMS, SERVICE_ACCOUNTS)
_FIRST_SECONDS, LONGEST_SECONDS = 1.0, 60.0
"""Pause between questions after a no: the rights of a target that has just been joined come one after the other. A yes
counts for the longest: nothing tells of a right that is taken away.
"""


@dataclass
class Following:
    """The last answer of one target."""

    kinds: list[str] | None = None
    """None as long as there is none: a target that does not answer this question is not to lack the rest."""
    _until: float = 0.0
    _backoff: Backoff = field(default_factory=lambda: Backoff(_FIRST_SECONDS, LONGEST_SECONDS))

    async def ask(self, target: Target) -> float:
        """Ask if that is due; returns in how many seconds it is again."""
        now = time.monotonic()
        if now >= self._until:
            try:
                self.kinds = await _granted(target)
                pause = LONGEST_SECONDS if len(self.kinds) == len(_KINDS) else self._backoff.next()
            except KubeError as error:
                log.info("target %s does not say what may be brought there: %s", "/".join(target.key), error)
                pause = self._backoff.next()
            self._until = now + pause
        return max(0.0, self._until - now)


async def _granted(target: Target) -> list[str]:
    kinds = []
    for kind in _KINDS:
        with contextlib.suppress(Forbidden):
            if not await missing(target, kind, ("create",)):
                kinds.append(kind.plural)
    return kinds
