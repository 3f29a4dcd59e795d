"""`flotilla leave` for each pair of clusters: drain the Target, then remove the Source and its rights."""

import contextlib
import time

from agent.api import names
from agent.api.conditions import condition_of
from agent.api.kinds import CLUSTER_TARGETS, NAMESPACES, PODS, SECRETS, TARGETS, Kind
from agent.cli.joining import manifests
from agent.cli.joining.contexts import telling
from agent.cli.joining.fleet import Pair, Say
from agent.cli.joining.manifests import KUBECONFIG_KEY, Raw
from agent.cli.joining.objects import Report, find, title, until
from agent.cli.options import Failed, told
from agent.kube.client import Client
from agent.kube.errors import Conflict, Forbidden, KubeError, NotFound

_UNREACHABLE_SECONDS = 15.0
"""Time for which a target may be unreachable before `flotilla leave` stops waiting for it."""


class Leaving:
    """Leaving of a pair: drains for up to `seconds`; with `force` it does not wait for running pods."""

    def __init__(self, seconds: float, *, force: bool) -> None:
        self._seconds = seconds
        self._force = force

    async def __call__(self, pair: Pair, report: Report, say: Say) -> None:
        """Disconnect one pair. Raises Failed; the message lists the remaining objects."""
        with telling(pair.source.title):
            await self._remove_target(pair, report, say)
        await self._remove_source(pair, report, say)
        report.state = "left"

    async def _remove_target(self, pair: Pair, report: Report, say: Say) -> None:
        found, client = pair.names(), pair.source.client
        kind, place = found.target_kind, found.target_place
        what = f"{title(kind, found.target, place)} in {pair.source.title}"
        say("looking for the target")
        target = await find(client, kind, found.target, place)
        if target is None:
            report.notes.append(f"there is no {what}")
            # Remove the Secret of an incomplete join.
            await self._remove_secret(pair, found.source_namespace, found.target, report)
            return
        if self._force:
            key = f"{names.SHORT_PREFIX}{names.FORCE_REMOVE}"
            await client.patch(kind, found.target, {"metadata": {"annotations": {key: "true"}}}, place)
        await _delete(client, kind, target)
        await self._drained(pair, target, say)
        report.changes.append(f"{what} deleted")
        reference = (target.get("spec") or {}).get("kubeconfigSecret") or {}
        await self._remove_secret(pair, place or reference.get("namespace", ""), reference.get("name", ""), report)

    async def _drained(self, pair: Pair, target: Raw, say: Say) -> None:
        """Wait until the Target has been deleted. Raises Failed with its Drained condition after a timeout."""
        found, client = pair.names(), pair.source.client
        kind, place, uid = found.target_kind, found.target_place, target["metadata"]["uid"]
        what = f"{title(kind, found.target, place)} in {pair.source.title}"
        lost = time.monotonic() + _UNREACHABLE_SECONDS
        said = ""

        async def gone() -> bool:
            nonlocal said
            now = await find(client, kind, found.target, place)
            if now is None or now["metadata"]["uid"] != uid:
                return True
            drained = condition_of(now, "Drained") or {}
            said = str(drained.get("message", ""))
            if drained.get("reason") == "Unreachable" and time.monotonic() > lost:
                raise Failed(f"{what} is being deleted, and remains: {said}; `flotilla leave --force` does that")
            say(f"draining: {await _pods(client, names.virtual_node(place or '', found.target), place)}")
            return False

        def why() -> str:
            why = said or "its agent has not said why: see that it runs"
            return (
                f"{what} is still there after {self._seconds:g} s, and goes when its pods have: {why}; wait longer with"
                " --timeout, or do not wait for them with --force"
            )

        await until(gone, self._seconds, why)

    async def _remove_secret(self, pair: Pair, place: str, name: str, report: Report) -> None:
        """Delete the kubeconfig Secret unless it has other data or another Target uses it."""
        client = pair.source.client
        secret = await find(client, SECRETS, name, place) if name and place else None
        if secret is None:
            return
        what = f"{title(SECRETS, name, place)} in {pair.source.title}"
        if set(secret.get("data") or {}) != {KUBECONFIG_KEY}:
            report.notes.append(f"{what} was not made by join, and stays")
        elif await _in_use(client, place, name):
            report.notes.append(f"{what} is used by another target, and stays")
        else:
            await _delete(client, SECRETS, secret)
            report.changes.append(f"{what} deleted")

    async def _remove_source(self, pair: Pair, report: Report, say: Say) -> None:
        """Delete the Source in the target, with its service account and its rights."""
        found = pair.names()
        what = title(found.source_kind, found.source, found.source_place)
        if pair.target is None:
            report.notes.append(f"{what} stays in the target: name its context by --target-context to delete it, too")
            return
        say(f"removing {what}")
        option = f" -n {found.source_place}" if found.source_place else ""
        remains = (
            f"{what} remains in {pair.target.title}, and with it the rights of the source: kubectl --context"
            f" {pair.target.context} delete {found.source_kind.plural}{option} {found.source}"
        )
        try:
            await self._delete_source(pair, report)
        except KubeError as error:
            raise Failed(f"{told(error, pair.target.title)}. {remains}") from error

    async def _delete_source(self, pair: Pair, report: Report) -> None:
        assert pair.target is not None
        found, client = pair.names(), pair.target.client
        what = f"{title(found.source_kind, found.source, found.source_place)} in {pair.target.title}"
        source = await find(client, found.source_kind, found.source, found.source_place)
        if source is None:
            report.notes.append(f"there is no {what}")
            return
        whose, mine = manifests.cluster_uid(source), await _uid(pair.source.client)
        if whose and mine and whose != mine:
            raise Failed(f"{what} stands for another cluster than {pair.source.context}, and stays")
        await _delete(client, found.source_kind, source)
        report.changes.append(f"{what} deleted")


async def _delete(client: Client, kind: Kind, obj: Raw) -> None:
    """Delete this very object; another hand may be faster."""
    metadata = obj["metadata"]
    with contextlib.suppress(NotFound, Conflict):
        await client.delete(kind, metadata["name"], metadata.get("namespace"), uid=metadata["uid"])


async def _pods(client: Client, node: str, namespace: str | None) -> str:
    """Return the number of pods left on a virtual node as text, without a number if the user may not list them."""
    try:
        _, items = await client.list_raw(PODS, namespace, fields=f"spec.nodeName={node}")
    except Forbidden:
        return "pods go"
    return f"{len(items)} pod{'' if len(items) == 1 else 's'} left"


async def _in_use(client: Client, namespace: str, name: str) -> bool:
    for kind, place in ((TARGETS, namespace), (CLUSTER_TARGETS, None)):
        try:
            targets = await client.list(kind, place)
        except (NotFound, Forbidden):
            continue
        for each in targets:
            reference = (each.get("spec") or {}).get("kubeconfigSecret") or {}
            if reference.get("name") == name and (place or reference.get("namespace")) == namespace:
                return True
    return False


async def _uid(client: Client) -> str:
    try:
        return str((await client.get(NAMESPACES, "kube-system"))["metadata"]["uid"])
    except KubeError:
        return ""
