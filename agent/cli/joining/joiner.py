"""Join one source and one target step by step; the report records each step."""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agent.api.conditions import condition_of
from agent.api.kinds import NAMESPACES, SECRETS, SERVICE_ACCOUNTS
from agent.api.names import ACCEPT_CLUSTER, LEASE_CONTROLLERS, SHORT_PREFIX
from agent.api.roles import CLUSTER_SUMMARY_VIEWER_ROLE, NAMED_FEATURES, OPTIONAL_FEATURES, SOURCE_ROLE
from agent.cli.checks.staying import REMEDY, TOPOLOGY, spread_hard
from agent.cli.joining import credentials, manifests
from agent.cli.joining.contexts import Side, Way, address, telling
from agent.cli.joining.manifests import Names, Raw
from agent.cli.joining.objects import Report, ensure, find, title, until
from agent.cli.options import Failed
from agent.clusters.target import State
from agent.kube import kubeconfig
from agent.kube.errors import Forbidden, KubeError, Unauthorized
from agent.kube.kubeconfig import Entry
from agent.model import token
from agent.model.abridged import abridged

Say = Callable[[str], None]

ACCEPT = SHORT_PREFIX + ACCEPT_CLUSTER
DEFAULT_TOKEN = "7d"
NOT_ALLOWED = (
    "volume claims, service accounts and endpoints of Services do not go there: allow what pods need by --allow"
    f" {','.join(name for name in OPTIONAL_FEATURES if name not in NAMED_FEATURES)}"
)
READS_ALL = (
    "{source} can read all Secrets and ConfigMaps of {target}, those of kube-system and of Flotilla included, where"
    " it is kept from writing only: no role can leave out namespaces. Where that is too much, join without"
    " --cluster-scoped, namespace by namespace"
)
SPREAD = (
    "virtual nodes have labels of their target such as {keys}, and count as domains of {source} for pods that stay and"
    " are spread hard over them ({which}): {remedy}"
)
_SHOWN = 3
_SETTLED_SECONDS = 6.0
"""Time in which a Target's conditions may still describe its old credentials."""


@dataclass(frozen=True)
class Terms:
    """Options that apply to all pairs."""

    way: Way = field(default_factory=Way)
    token_seconds: int = 7 * 86400
    new_token: bool = False
    wait: bool = True
    allow: tuple[str, ...] | None = None
    """Features that the source may use in addition to the basic ones; None: none, or those of an existing Source."""
    seconds: float = 60.0
    """Timeout of each wait."""


class Joiner:
    """Joins two clusters that have been examined; a UID is empty if the user may not read it."""

    def __init__(
        self, source: Side, target: Side, names: Names, uids: tuple[str, str], terms: Terms, say: Say, report: Report
    ) -> None:
        self._source = source
        self._target = target
        self._names = names
        self._source_uid, self._target_uid = uids
        self._terms = terms
        self._say = say
        self._report = report

    async def run(self) -> None:
        """Join the clusters. Raises Failed; the report then lists the completed steps."""
        entry = address(self._target.entry, self._target.context, self._terms.way)
        reached = await self._reach(entry)
        await self._check_owners()
        with telling(self._target.title):
            await self._let_in()
            found = await self._kubeconfig(entry)
            await self._prove(found if reached else self._own_way(found))
        with telling(self._source.title):
            changed = await self._add(found)
            await self._warn_of_spread()
            self._report.state = "joined"
            if self._terms.wait:
                self._report.state = "failed"
                await self._ready(entry["server"], time.monotonic() + (_SETTLED_SECONDS if changed else 0.0))
                self._report.state = "ready"

    async def _warn_of_spread(self) -> None:
        """Note pods that stay in the source, and that the new virtual node may keep from being scheduled."""
        client = self._source.client
        with contextlib.suppress(KubeError):
            found = await spread_hard(client, TOPOLOGY, await client.list(NAMESPACES))
            if found:
                keys = " and ".join(sorted({key for each in found for key in each.keys}))
                which = abridged([each.title for each in found], _SHOWN)
                text = SPREAD.format(keys=keys, source=self._source.title, which=which, remedy=REMEDY)
                self._report.notes.append(text)

    async def _reach(self, entry: Entry) -> bool:
        """Try the address that agents will use, and note which part of the path that has tested.

        Returns True if the address was reached from this machine.
        """
        server = entry["server"]
        rest = f"whether pods of {self._source.title} reach it, is told by the condition Reachable of the target"
        if not self._terms.way.other:
            self._report.notes.append(f"{server} was reached from here; {rest}")
            return True
        self._say(f"trying {server}")
        why = await credentials.answers(entry)
        if why:
            self._report.notes.append(f"{server} cannot be reached from here ({why}); {rest}")
            return False
        self._report.notes.append(f"{server} was reached from here, and its certificate is trusted; {rest}")
        return True

    def _own_way(self, found: Entry) -> Entry:
        """Return the kubeconfig with the address that this command itself uses."""
        way = Way(authority=self._terms.way.authority, loopback=True)
        entry = address(self._target.entry, self._target.context, way)
        return {**found, "clusters": [{**found["clusters"][0], "cluster": entry}]}

    async def _check_owners(self) -> None:
        """Check that no object to be written represents another cluster."""
        names, vouched = self._names, False
        owned = (
            (self._target, names.source_kind, names.source, names.source_place, self._source_uid, "--source-name"),
            (self._source, names.target_kind, names.target, names.target_place, self._target_uid, "--target-name"),
            (self._source, SECRETS, names.target, names.source_namespace, self._target_uid, "--target-name"),
        )
        for side, kind, name, namespace, uid, option in owned:
            with telling(side.title):
                found = await find(side.client, kind, name, namespace)
            what = f"{title(kind, name, namespace)} of {side.title}"
            vouched = vouched or (kind == names.target_kind and manifests.vouches(found, uid))
            told = manifests.cluster_uid(found) if found and not vouched else ""
            if told and uid and told != uid:
                gone = f", or, if that one is gone for good, annotate it {ACCEPT}={uid}"
                raise Failed(
                    f"{what} stands for another cluster: choose another name, {option}, or let go of that one first,"
                    f" `flotilla leave`{gone if kind == names.target_kind else ''}"
                )
            if found and kind == SECRETS and not manifests.kubeconfig_of(found):
                raise Failed(f"{what} is there and holds no kubeconfig: choose another name, {option}, or delete it")

    async def _let_in(self) -> None:
        """Create the Source in the target, and wait for the service account that its agent creates."""
        names, client, place = self._names, self._target.client, self._names.target_namespace
        self._say(f"{names.source_kind.name} in {self._target.title}")
        made = await self._source_object()
        what = title(SERVICE_ACCOUNTS, names.source, place)
        self._say(f"waiting for {what}")
        await until(
            lambda: find(client, SERVICE_ACCOUNTS, names.source, place),
            self._terms.seconds,
            lambda: (
                f"the agent of {self._target.title} has not made {what}: see that it renews its lease"
                f" {LEASE_CONTROLLERS}, and what the conditions of"
                f" {title(names.source_kind, names.source, names.source_place)} say"
            ),
        )
        try:
            for kind, manifest in manifests.renewal(names, made):
                await ensure(self._target, kind, manifest, self._report)
        except Forbidden as error:
            self._report.notes.append(f"the agent cannot renew the token, so join again before it ends: {error}")

    async def _source_object(self) -> Raw:
        names, allow = self._names, self._terms.allow
        found = await find(self._target.client, names.source_kind, names.source, names.source_place)
        if found is None and allow is None:
            allow = ()
            self._report.notes.append(NOT_ALLOWED)
        if names.cluster_scoped:
            self._report.notes.append(READS_ALL.format(source=self._source.title, target=self._target.title))
        wanted = manifests.source(names, self._source_uid, allow)
        return await ensure(self._target, names.source_kind, wanted, self._report)

    async def _kubeconfig(self, entry: Entry) -> Entry:
        """Return a kubeconfig with the existing token if that is valid, else with a new one."""
        names = self._names
        with telling(self._source.title):
            secret = await find(self._source.client, SECRETS, names.target, names.source_namespace)
        found = kubeconfig.with_token(names.target, entry, names.target_namespace, credentials.old_token(secret))
        own = self._own_way(found)["clusters"][0]["cluster"] if self._terms.way.other else entry
        old = kubeconfig.token_of(found)
        if self._terms.new_token or not await credentials.is_good(old, own, names):
            self._say("requesting a token")
            new = await credentials.request_token(
                self._target.client, names.target_namespace, names.source, self._terms.token_seconds
            )
            kubeconfig.set_token(found, new)
            self._report.changes.append(
                f"token of ServiceAccount {names.target_namespace}/{names.source} in {self._target.title} made"
            )
        claims = token.claims(kubeconfig.token_of(found))
        self._report.token_ends = f"{claims.expires:%Y-%m-%dT%H:%M:%SZ}" if claims else ""
        return found

    async def _prove(self, found: Entry) -> None:
        """Try the credentials until they work: the target's agent has to bind the roles first."""
        self._say("waiting for the rights of the source")
        names, last = self._names, ""

        async def works() -> bool:
            nonlocal last
            try:
                await credentials.ask(found, names)
            except Unauthorized:
                raise Failed(
                    f"{kubeconfig.cluster_of(found)['server']} does not take the token of {self._target.title}: does"
                    " this address lead to another cluster?"
                ) from None
            except Forbidden as error:
                last = str(error)
                return False
            return True

        what = title(names.source_kind, names.source, names.source_place)
        await until(
            works,
            self._terms.seconds,
            lambda: (
                f"the rights of {what} in {self._target.title} have not come ({last}): see what its conditions say, and"
                f" that ClusterRoles {SOURCE_ROLE} and {CLUSTER_SUMMARY_VIEWER_ROLE} are as the chart there has them"
            ),
        )

    async def _add(self, found: Entry) -> bool:
        """Write Secret and Target in the source. Return True if an older Target was changed."""
        names, client = self._names, self._source.client
        self._say(f"{names.target_kind.name} in {self._source.title}")
        before = await find(client, names.target_kind, names.target, names.target_place)
        secret = manifests.secret(names.target, names.source_namespace, found, self._target_uid)
        existing = await find(client, SECRETS, names.target, names.source_namespace)
        if existing is not None:
            del secret["type"]
            if credentials.read(existing) == found:
                # The same kubeconfig in another format is kept.
                del secret["data"]
        changes = len(self._report.changes)
        await ensure(self._source, SECRETS, secret, self._report)
        await ensure(self._source, names.target_kind, manifests.target(names, self._target_uid), self._report)
        return before is not None and len(self._report.changes) > changes

    async def _ready(self, server: str, settled: float) -> None:
        """Wait, at least until `settled`, for Ready to be True. Raises Failed with the condition's message."""
        names, client = self._names, self._source.client
        what = f"{title(names.target_kind, names.target, names.target_place)} of {self._source.title}"
        self._say("waiting until the target is Ready")
        told: dict[str, Any] = {}

        async def is_ready() -> bool:
            found: Raw = await client.get(names.target_kind, names.target, names.target_place)
            told.clear()
            told.update(condition_of(found, "Ready") or {})
            return told.get("status") == "True" and time.monotonic() >= settled

        def why() -> str:
            if not told:
                return f"{what} has no condition Ready: see that the agent there runs"
            remedy = ""
            if told.get("reason") == State.UNREACHABLE:
                remedy = (
                    f"; pods of {self._source.title} do not reach {server}: open the way, or give an address that they"
                    f" do reach, --server {self._target.context}=https://HOST:PORT"
                )
            return f"{what} is not Ready: {told.get('reason')}: {told.get('message')}{remedy}"

        await until(is_ready, self._terms.seconds, why)
        self._report.message = str(told.get("message", ""))
