"""Events on pods that need the source's API while the agent knows no address of it for targets."""

from collections.abc import Mapping
from typing import Any

from agent.api import names
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.kube.store import Object
from agent.model import sourceapi

REASON = "SourceApiBlocked"
_MESSAGE = (
    f"annotation {names.SHORT_PREFIX}{names.SOURCE_API}: this cluster's agent does not know under which address targets"
    " reach the API server here; start it with --source-api HOST:PORT. The pod runs without a token of this cluster"
)


class NoSourceApi:
    """Provider without objects (see `agent.clusters.copies.prerequisites.Provider`)."""

    def __init__(self, deps: Deps) -> None:
        self._recorder = deps.recorder
        deps.prerequisites.add(self)

    async def ensure(self, proxy: Mapping[str, Any], target: Target) -> None:
        """Emit an event on a pod that asks for the source's API."""
        if not target.is_self and sourceapi.asks(proxy["metadata"].get("annotations")):
            self._recorder.event(dict(proxy), "Warning", REASON, _MESSAGE)

    def places(self, proxy: Object) -> Mapping[str, str]:
        """Return nothing: it binds no pod to a target."""
        return {}

    def left_in(self, target: Target) -> bool:
        """Return False: it creates no objects in targets."""
        return False
