"""Status of ManifestWorks: conditions, feedback values, and conditions by rules, written within a second of a change.

Watches  the metadata of applied objects, and the results of the works controller.
Writes   the status of ManifestWorks in the hub; an unchanged status costs no request.
Objects without a watch are read every 30 s.
"""

import logging
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec

from agent.api.kinds import MANIFEST_WORKS
from agent.clusters.deps import Deps
from agent.klusterlet import rules, status
from agent.klusterlet.accounts import Accounts
from agent.klusterlet.drift import POLL_SECONDS, Watches
from agent.klusterlet.feedback import Feedback, progress
from agent.klusterlet.hub import HubController
from agent.klusterlet.manifests import Identity, digest
from agent.klusterlet.rules import Answer, Question
from agent.klusterlet.status import ManifestState
from agent.klusterlet.works import Result, WorksController
from agent.kube.errors import NotFound, StatusError
from agent.kube.store import Object
from agent.model.diff import same
from agent.runtime.controller import Controller
from agent.runtime.worker import Worker, WorkerFailed

log = logging.getLogger(__name__)

Raw = dict[str, Any]

_PAUSE_SECONDS = 0.5
"""Seconds between two reports on one ManifestWork."""
_SERVES = f"{rules.__name__}:{rules.answer.__name__}"


class _Known(NamedTuple):
    """State of an object when it was read last."""

    version: str
    config: bytes
    """Digest of the rules that were evaluated, and of the account that read the object."""
    state: ManifestState


class ReportsController(Controller[str]):
    """Writes the status of ManifestWorks. Keys are names of AppliedManifestWorks."""

    name = "work-reports"
    workers = 4

    def __init__(
        self, deps: Deps, hub: HubController, works: WorksController, watches: Watches, accounts: Accounts
    ) -> None:
        super().__init__()
        self._deps = deps
        self._hub = hub
        self._works = works
        self._watches = watches
        self._accounts = accounts
        self._worker = Worker(_SERVES)
        self._known: dict[str, dict[Identity, _Known]] = {}
        works.listen(self.queue.add)
        watches.subscribe(self._touched)

    async def run(self) -> None:
        """Report until cancelled."""
        try:
            await super().run()
        finally:
            await self._worker.close()

    def _touched(self, identity: Identity, obj: Object | None) -> None:
        for key in self._watches.keys(identity):
            self.queue.add_after(key, _PAUSE_SECONDS)

    async def reconcile(self, key: str) -> float | None:
        """Write the status of one ManifestWork if it has changed."""
        hub, outcome = self._hub.current, self._works.outcomes.get(key)
        work = hub.work(key) if hub is not None else None
        if hub is None or work is None or work.deleting or outcome is None:
            self._known.pop(key, None)
            return None
        raw = work.decode()
        if outcome.generation != int(raw["metadata"].get("generation") or 0):
            # The works controller reports once it has applied the present generation.
            return None
        known = self._known.get(key, {})
        states = [await self._state(each, known, outcome.executor) for each in outcome.results]
        present = {each.meta.identity for each in outcome.results}
        self._known[key] = {identity: each for identity, each in known.items() if identity in present}
        wanted = status.status(raw, states, self._deps.clock.now())
        if not same(raw.get("status") or {}, wanted):
            patch = {"status": wanted}
            answer = await hub.client.patch_raw(MANIFEST_WORKS, work.name, patch, hub.namespace, sub="status")
            hub.works.absorb(answer)
        return self._again(outcome.results)

    def _again(self, results: list[Result]) -> float | None:
        """Return the seconds until objects without a watch are read again; None if all are watched."""
        unwatched = any(
            each.kind is not None
            and not each.is_skipped
            and not self._watches.is_watched(each.meta.identity, each.kind)
            for each in results
        )
        return POLL_SECONDS if unwatched else None

    async def _state(self, result: Result, known: dict[Identity, _Known], executor: str) -> ManifestState:
        if result.is_skipped:
            return ManifestState(result.meta, result.applied, None)
        if result.kind is None or not result.meta.name:
            return ManifestState(result.meta, result.applied, status.INCOMPLETE)
        identity = result.meta.identity
        watched = self._watches.get(identity, result.kind)
        version = watched.version if self._watches.is_watched(identity, result.kind) and watched is not None else ""
        last = known.get(identity)
        config = digest(executor, result.config.feedback, result.config.conditions)
        if last is None or not version or (last.version, last.config) != (version, config):
            found, state = await self._read(result, executor)
            last = known[identity] = _Known(found, config, state)
        rival = self._works.rival(identity)
        return replace(last.state, meta=result.meta, applied=result.applied, contested=rival)

    async def _read(self, result: Result, executor: str) -> tuple[str, ManifestState]:
        """Return the version and the state of an object, as far as the account may read it."""
        kind, meta, config = result.kind, result.meta, result.config
        assert kind is not None
        try:
            raw = await self._accounts.client(executor).get_raw(kind, meta.name, meta.namespace)
        except NotFound:
            return "", ManifestState(meta, result.applied, status.NOT_AVAILABLE)
        except StatusError as error:
            return "", ManifestState(meta, result.applied, status.not_fetched(str(error)))
        obj: Raw = msgspec.json.decode(raw)
        asked = Question([dict(each) for each in config.conditions], raw, [dict(each) for each in config.feedback])
        found = await self._ruled(asked)
        state = ManifestState(
            meta,
            result.applied,
            status.IS_AVAILABLE,
            feedback=found.feedback,
            has_rules=bool(config.feedback),
            rules=found.conditions,
            progress=progress(obj),
        )
        return str(obj["metadata"]["resourceVersion"]), state

    async def _ruled(self, asked: Question) -> Answer:
        if not asked.rules and not asked.feedback:
            return Answer([], Feedback([], []))
        try:
            answer = await self._worker.ask(msgspec.msgpack.encode(asked))
        except WorkerFailed as error:
            reason = f"rules of the object cannot be evaluated: {error}"
            return Answer(rules.unanswered(asked.rules, str(error)), Feedback([], [reason]))
        return msgspec.msgpack.decode(answer, type=Answer)
