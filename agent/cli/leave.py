"""flotilla leave: remove the connection that `flotilla join` has created."""

from typing import Annotated

import typer

from agent.cli.joining import arguments
from agent.cli.joining.fleet import Order, for_all, opened_pairs
from agent.cli.joining.leaver import Leaving
from agent.cli.joining.objects import Report
from agent.cli.joining.options import (
    TARGET_CONTEXT,
    Both,
    ClusterScoped,
    SourceName,
    TargetKubeconfig,
    TargetNames,
    documents_of,
    order_of,
    usage,
)
from agent.cli.joining.results import show
from agent.cli.options import Context, Kubeconfig, Namespace, Output, OutputOption, contexts, duration, finish
from agent.cli.progress import default
from agent.kube import kubeconfig as kubeconfigs

AGAIN = "Running the same command again goes on from there"


def leave(
    target_context: Annotated[
        list[str],
        typer.Option(
            TARGET_CONTEXT,
            help="Context of a target, where the Source goes, too; may be repeated.",
            autocompletion=contexts,
        ),
    ] = [],  # noqa: B006
    target_name: TargetNames = [],  # noqa: B006
    namespace: Namespace = "",
    cluster_scoped: ClusterScoped = False,
    both: Both = False,
    source_name: SourceName = "",
    force: Annotated[
        bool, typer.Option("--force", help="Do not wait for pods that run there: they may go on running.")
    ] = False,
    timeout: Annotated[float, duration(least="1s", help="How long draining may take.")] = 300.0,
    target_kubeconfig: TargetKubeconfig = "",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Let targets go: their pods are deleted, then Target, Secret and Source. Owners create the pods again."""

    async def run() -> list[Report]:
        documents = documents_of(kubeconfig, target_kubeconfig)
        source = kubeconfigs.context_of(documents[0], context)[0]
        with usage():
            order = _order(source, target_context, target_name, source_name, namespace, cluster_scoped, both)
        async with opened_pairs(order, *documents) as pairs:
            return await for_all(pairs, "leave", default(), Leaving(timeout, force=force))

    show(finish(run()), output, again=AGAIN)


def _order(
    source: str,
    contexts: list[str],
    targets: list[str],
    source_name: str,
    namespace: str,
    cluster_scoped: bool,
    both: bool,
) -> Order:
    if contexts:
        return order_of(source, contexts, targets, source_name, namespace, cluster_scoped, both)
    if not targets:
        raise arguments.WrongUsage(
            "which targets? --target-context CONTEXT, or, to leave the clusters themselves alone, --target-name"
        )
    if both:
        raise arguments.WrongUsage("--both asks the targets, too: name their contexts, --target-context CONTEXT")
    name = arguments.names("--source-name", [source_name] if source_name else [], [source])[source]
    return Order(source, name, dict.fromkeys(targets, ""), namespace, cluster_scoped)
