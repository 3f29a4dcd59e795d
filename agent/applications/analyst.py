"""Drafts of applications and the Services that they call, computed in threads because manifests may be large.

A draft is computed again when the spec or the distribution changes, calls when Services change as well.
"""

from typing import Any

from agent.applications.memory import Memory
from agent.applications.plan import calls_of, searched_of
from agent.applications.services import LiveServices
from agent.base.offloop import off_loop
from agent.kube.store import Object
from agent.model.p2code.annotations import Precedence
from agent.model.p2code.check import Draft, draft
from agent.model.p2code.search import Searched


class Analyst:
    """Stores its results in the Memory of each application."""

    def __init__(self, services: LiveServices, precedence: Precedence) -> None:
        self._services = services
        self._precedence = precedence

    async def draft(self, psm: Object, memory: Memory, distribution: str) -> Draft:
        """Return the draft of an application, and store its calls in `memory`."""
        raw = psm.decode()
        of = (raw["metadata"].get("generation"), distribution)
        if memory.draft is None or memory.of != of:
            spec = raw.get("spec") or {}
            found = await off_loop(psm.namespace, self._analyse, spec, psm.name, distribution)
            memory.draft, memory.searched = found
            memory.psm, memory.of, memory.live = psm.key, of, None
            memory.namespaces = memory.draft.namespaces
        live = self._services.of(memory.namespaces)
        if live != memory.live:
            calls = await off_loop(psm.namespace, calls_of, memory.draft, live, memory.searched)
            memory.live, memory.calls = live, calls
            memory.called = {call.service for found in calls.of.values() for call in found}
        return memory.draft

    def _analyse(self, spec: Any, name: str, distribution: str) -> tuple[Draft, Searched]:
        found = draft(spec, name, self._precedence, distribution)
        return found, searched_of(found)
