"""Which kinds a target lets us bring with pods, asked of the target itself."""

import contextlib
import time
from dataclasses import dataclass, field

from agent.api.kinds import PERSISTENT_VOLUME_CLAIMS, SERVICE_ACCOUNTS
from agent.base.backoff import Backoff
from agent.clusters.rights import missing
from agent.clusters.target import Target
from agent.kube.errors import Forbidden

_KINDS = (PERSISTENT_VOLUME_CLAIMS, SERVICE_ACCOUNTS)
_FIRST_SECONDS, _LONGEST_SECONDS = 1.0, 60.0
"""Pause between questions after a no: the rights of a target that has just been joined come one after the other."""
_GRANTED_SECONDS = 5.0
"""For how long a yes counts."""


@dataclass
class Following:
    """The last answer of one target."""

    kinds: list[str] = field(default_factory=list)
    _until: float = 0.0
    _again: float = 0.0
    _backoff: Backoff = field(default_factory=lambda: Backoff(_FIRST_SECONDS, _LONGEST_SECONDS))

    async def ask(self, target: Target) -> float:
        """Ask if that is due; returns in how many seconds it is again. Raises KubeError."""
        now = time.monotonic()
        if now >= self._until:
            self.kinds = []
            for kind in _KINDS:
                with contextlib.suppress(Forbidden):
                    if not await missing(target, kind, ("create",)):
                        self.kinds.append(kind.plural)
            granted = len(self.kinds) == len(_KINDS)
            self._until = now + (_GRANTED_SECONDS if granted else self._backoff.next())
            self._again = now + _LONGEST_SECONDS if granted else self._until
        return max(0.0, self._again - now)
