"""`flotilla move`: preview, write of the annotation, and wait."""

from collections.abc import Callable, Sequence

import msgspec

from agent.api import names, ownroles
from agent.api.kinds import NAMESPACES, PODS
from agent.base.clock import SystemClock
from agent.cli.checks.access import rights_of
from agent.cli.fleet.source_queries import agent_notes, moves_pods, read_proxies, read_targets
from agent.cli.moving import objects
from agent.cli.moving.fates import Fate
from agent.cli.moving.objects import Named
from agent.cli.moving.preview import Preview
from agent.cli.moving.waiting import Waiting
from agent.cli.moving.world import Meant, World, read_world
from agent.cli.options import Failed
from agent.clusters.stores.owners import KINDS
from agent.kube.client import Client
from agent.kube.errors import Forbidden, KubeError
from agent.kube.store import Object
from agent.model.targetchoice import combine, level
from agent.settings import Settings

OFF = (
    "the agent of this cluster moves no running pods: remove its setting --no-moves (agent.settings.moves=false of the"
    " chart)"
)
_UNCHANGED = "Nothing was changed"
_READING = ("get", "list", "watch")


class Move(msgspec.Struct, frozen=True):
    """Arguments of the command."""

    what: Named
    targets: str
    """Value of the annotation, empty for all targets."""
    wait: bool = False
    dry_run: bool = False


class Asking:
    """One call of `flotilla move`. Calls `say` with its progress."""

    def __init__(self, client: Client, namespace: str, settings: Settings, say: Callable[[str], None]) -> None:
        self.notes: list[str] = []
        """Notes for the user in addition to the result."""
        self._client = client
        self._namespace = namespace
        self._settings = settings
        self._say = say

    async def run(
        self, move: Move, seconds: float, stuck: float, show: Callable[[Sequence[Fate]], None]
    ) -> Sequence[Fate]:
        """Return the fate of each pod; write unless it is a dry run, and wait if requested.

        Raises Failed, KubeError.

        :param show: called with the fates before any wait
        """
        where = await objects.read(self._client, move.what, self._namespace)
        if move.wait and where.kind is PODS and where.scheduler_name != names.SCHEDULER_PROXY:
            raise Failed(f"pod {where.name} is no proxy pod: it runs in this cluster, and does not move. {_UNCHANGED}")
        place = where.name if where.kind is NAMESPACES else where.namespace
        targets = await read_targets(self._client, place, self.notes)
        await self._look_at_the_agent(where, targets, wait=move.wait)
        self._look_at_names(move.targets, place, targets)
        meant = Meant(where, move.targets)
        proxies = await read_proxies(self._client, place, self.notes)
        world = await read_world(self._client, targets, proxies, meant, self.notes)
        now = SystemClock().now()
        preview = Preview(self._client, world, meant, self._settings, self.notes, now)
        fates = await self._fates(preview, dry_run=move.dry_run)
        if not move.dry_run:
            before = objects.value_of(where)
            await objects.write(self._client, where, move.targets)
            self._say(written(move, before))
        show(fates)
        if move.wait:
            await self._wait(where, world, preview, move, fates, seconds, stuck)
        return fates

    async def _fates(self, preview: Preview, *, dry_run: bool) -> list[Fate]:
        """Preview the pods' fates, without a ranking if the user lacks the rights and it is no dry run."""
        try:
            return await preview.fates()
        except (Failed, Forbidden) as error:
            if dry_run:
                raise
            self.notes.append(f"where pods will go is not told: {error}")
            return await preview.fates(ranked=False)

    async def _wait(
        self,
        where: Object,
        world: World,
        preview: Preview,
        move: Move,
        fates: Sequence[Fate],
        seconds: float,
        stuck: float,
    ) -> None:
        waiting = Waiting(self._client, where, world, preview, self._say)
        self._say(await waiting.until_done(fates, move.targets, seconds, stuck))

    async def _look_at_the_agent(self, where: Object, targets: Sequence[Object], *, wait: bool) -> None:
        """Add notes if the agent will not act. Raises Failed if a wait could never end."""
        off = bool(targets) and not moves_pods(targets)
        told = OFF
        if off and where.kind in KINDS:
            told += f"; until then nothing counts that {where.kind.name} {where.name} says of targets"
        if off and wait:
            raise Failed(f"{told}. {_UNCHANGED}")
        lacking = "" if off or where.kind not in KINDS else await self._lacking()
        if lacking and wait:
            raise Failed(f"{lacking}. {_UNCHANGED}")
        self.notes += [each for each in (told if off else "", lacking) if each]
        if where.kind is PODS and where.controller is not None:
            owner = where.controller
            self.notes.append(
                f"what makes {where.name} anew knows nothing of it: name {owner.kind.lower()}/{owner.name}, or what"
                " controls that"
            )
        self.notes += await agent_notes(self._client, SystemClock().now())

    async def _lacking(self) -> str:
        """Return a message about owners that the agent may not read; empty if it may, or if that is unknown."""
        try:
            rights = await rights_of(self._client, ownroles.MOVES)
        except (Failed, KubeError):
            return ""
        kinds = sorted({str(grant.kind) for grant in rights.missing if grant.kind in KINDS and grant.verb in _READING})
        if not kinds:
            return ""
        return (
            f"the agent ({rights.account}) may not read {', '.join(kinds)}, so that nothing counts that these say of"
            " targets: add the rights for moves, which the chart grants, to its role"
        )

    def _look_at_names(self, value: str, namespace: str, targets: Sequence[Object]) -> None:
        own = frozenset(target.name for target in targets if target.namespace)
        of_cluster = frozenset(target.name for target in targets if not target.namespace)
        choice = combine([level("", {objects.KEY: value})], own)
        missing = choice.unknown(of_cluster) if choice is not None else ()
        if missing:
            known = ", ".join(sorted(own | of_cluster)) or "none"
            self.notes.append(
                f"no Target in namespace {namespace} and no ClusterTarget is called {', '.join(missing)} (there is:"
                f" {known})"
            )


def written(move: Move, before: str | None) -> str:
    """Return a message with the written value and the previous one."""
    now = f"{objects.KEY} of {move.what} is {move.targets!r}" if move.targets else f"{move.what} may be in any target"
    was = "not there" if before is None else repr(before)
    return f"{now} (was {was})" if before != move.targets else f"{now} already"
