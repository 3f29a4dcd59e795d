"""flotilla drain and undrain: remove all pods from a target, and allow pods in it again."""

from typing import Annotated

import typer

from agent.api import names
from agent.api.kinds import NODES
from agent.api.names import lifecycle
from agent.cli.agentflags import AgentFlag, settings_of
from agent.cli.draining.drainer import Drainer
from agent.cli.draining.plan import Options
from agent.cli.draining.retirer import Retirer
from agent.cli.fleet.completion import target_names
from agent.cli.fleet.source_queries import Source, read_targets, source
from agent.cli.moving.leaving import show_leaving
from agent.cli.moving.world import Meant
from agent.cli.options import Context, Failed, Kubeconfig, Namespace, duration, finish
from agent.kube.errors import NotFound
from agent.kube.store import Key
from agent.model.target_health import is_set
from agent.settings import Settings

DEFAULT_SECONDS = 600.0
CLUSTER_TARGET = "clustertarget/"

TargetName = Annotated[
    str,
    typer.Argument(
        help="Name of a Target of the namespace, or else of a ClusterTarget (or clustertarget/NAME).",
        autocompletion=target_names,
    ),
]


def drain(
    target: TargetName,
    namespace: Namespace = "",
    timeout: Annotated[float, duration(least="1s", help="How long pods may take to go.")] = DEFAULT_SECONDS,
    grace_period: Annotated[int, typer.Option(min=-1, help="Seconds for each pod to end; -1: its own.")] = -1,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would happen.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also pods that nothing makes again.")] = False,
    ignore_daemonsets: Annotated[
        bool, typer.Option("--ignore-daemonsets", help="Let pods of DaemonSets stay.")
    ] = False,
    delete_emptydir_data: Annotated[
        bool, typer.Option("--delete-emptydir-data", help="Also pods whose emptyDir volumes are lost then.")
    ] = False,
    evict: Annotated[bool, typer.Option("--evict", help="Evict them, also where the agent could move them.")] = False,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    agent_flag: AgentFlag = [],  # noqa: B006
) -> None:
    """Move all pods of this cluster out of a target, and wait until they are gone.

    Where the agent moves pods (--moves), it does so, replacement first, and the target stays closed; --dry-run says
    what would become of all pods together, and which would find no room. The options of evictions mean --evict.
    Elsewhere, and with --evict, its virtual node is cordoned and its pods are evicted. PodDisruptionBudgets are
    respected. Other Targets that name the same cluster are not drained.
    """
    options = Options(force, ignore_daemonsets, delete_emptydir_data)
    grace = grace_period if grace_period >= 0 else None
    evict = evict or grace is not None or options != Options()
    settings = settings_of(agent_flag)

    async def run() -> None:
        async with source(kubeconfig, context, namespace) as found:
            key = await resolve(found, target)
            if not evict and await (retirer := Retirer(found.client, key, _say)).is_served():
                await (_preview(found, key, settings) if dry_run else _retire(retirer, _title(key), timeout))
            else:
                drainer = Drainer(found.client, names.virtual_node(*key), options, _say)
                await _evict(drainer, _title(key), timeout, grace, dry_run=dry_run)

    finish(run())


async def _retire(retirer: Retirer, title: str, seconds: float) -> None:
    await retirer.run(seconds)
    _say(f"target {title} drained, and closed until it is undrained")


async def _preview(where: Source, key: Key, settings: Settings) -> None:
    """Print the expected result for each pod of a target that a user wants to empty. Raises Failed, KubeError."""
    meant = Meant(retiring=names.virtual_node(*key))
    await show_leaving(where.client, meant, settings, _title(key))
    _say(f"target {_title(key)} would be drained; nothing was changed")


async def _evict(drainer: Drainer, title: str, seconds: float, grace: int | None, *, dry_run: bool) -> None:
    if dry_run:
        await drainer.preview(grace)
        _say(f"target {title} would be drained; nothing was changed")
        return
    count = await drainer.run(seconds, grace)
    _say(f"target {title} drained: {count} {'pod' if count == 1 else 'pods'} moved out")


def undrain(
    target: TargetName,
    namespace: Namespace = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would happen.")] = False,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Let pods go to a target again that was drained or cordoned. Pods that run elsewhere stay there."""

    async def run() -> None:
        async with source(kubeconfig, context, namespace) as found:
            key = await resolve(found, target)
            node = names.virtual_node(*key)
            if dry_run:
                cordoned = bool(((await found.client.get(NODES, node)).get("spec") or {}).get("unschedulable"))
                given = (await Retirer(found.client, key, _say).target())["metadata"].get("annotations")
                cordoned = cordoned or is_set(given, lifecycle.RETIRE)
                _say(f"target {_title(key)} {'would take' if cordoned else 'takes'} pods{' again' if cordoned else ''}")
                return
            opened = await Retirer(found.client, key, _say).open()
            changed = await Drainer(found.client, node, Options(), _say).cordon(wanted=False) or opened
            _say(f"target {_title(key)} takes pods{' again' if changed else ' already'}")

    finish(run())


async def resolve(where: Source, name: str) -> Key:
    """Return the key of the target with this name, provided that its virtual node exists. Raises Failed, KubeError."""
    only_cluster = name.startswith(CLUSTER_TARGET)
    plain = name.removeprefix(CLUSTER_TARGET)
    notes: list[str] = []
    targets = await read_targets(where.client, where.namespace, notes)
    found = [each.key for each in targets if each.name == plain and not (only_cluster and each.namespace)]
    if not found and notes:
        raise Failed(f"cannot see target {name}: {notes[0]}; ask for this right, or choose another user or context")
    if not found:
        known = ", ".join(sorted({each.name for each in targets})) or "none"
        raise Failed(
            f"no target {name} serves namespace {where.namespace} of this cluster (there is: {known}); choose another"
            " namespace by -n, or another cluster by --context"
        )
    key = max(found)
    try:
        await where.client.get_raw(NODES, names.virtual_node(*key))
    except NotFound:
        raise Failed(
            f"target {_title(key)} has no virtual node {names.virtual_node(*key)}, so no pods: see `flotilla targets`"
        ) from None
    return key


def _title(key: Key) -> str:
    return "/".join(part for part in key if part)


def _say(text: str) -> None:
    print(text, flush=True)
