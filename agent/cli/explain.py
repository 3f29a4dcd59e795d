"""flotilla explain: the reasons for the target of a pod, the decisions of a Placement, the state of an application."""

import sys
from datetime import datetime
from typing import Annotated

import typer

from agent.api import names
from agent.base.clock import SystemClock
from agent.cli.agentflags import AgentFlag, settings_of
from agent.cli.explaining import facts, rendering
from agent.cli.explaining.explanation import explanation_of
from agent.cli.explaining.lines import Explanation
from agent.cli.fleet.source_queries import source
from agent.cli.options import Context, Kubeconfig, Namespace, Output, OutputOption, connection, finish, opened
from agent.cli.output import as_json, as_yaml
from agent.cli.placements import applications, queries
from agent.cli.placements import rendering as placement_rendering
from agent.cli.placements.documents import placement_in, text_of
from agent.cli.placements.explanation import PlacementExplanation
from agent.cli.placements.explanation import explanation_of as explanation_of_placement
from agent.cli.placements.facts import read_facts, read_placement
from agent.kube.store import Object
from agent.model.daemonpod import REASON, message
from agent.model.namespaces import command, is_enabled
from agent.model.proxypod import is_delegate, is_elected, is_of_a_daemon_set
from agent.settings import Settings

app = typer.Typer(
    help="Say why a pod is where it is, or what it waits for; what a Placement or an application decides.",
    no_args_is_help=True,
)


@app.callback()
def _explain() -> None:
    pass


@app.command()
def pod(
    name: Annotated[str, typer.Argument(help="Name of a pod in the source cluster.")],
    namespace: Namespace = "",
    output: OutputOption = Output.TABLE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    agent_flag: AgentFlag = [],  # noqa: B006
) -> None:
    """Rank the targets for a proxy pod as the agent does, and show what the pod waits for. Nothing is changed.

    This command asks the targets with their kubeconfig Secrets, as far as you may read these.
    """
    settings = settings_of(agent_flag)
    found = finish(_explanation(name, namespace, kubeconfig, context, settings))
    match output:
        case Output.TABLE | Output.WIDE:
            print(rendering.as_text(found, terminal=sys.stdout.isatty()))
        case Output.JSON:
            print(as_json(found))
        case Output.YAML:
            print(as_yaml(found))


@app.command()
def placement(
    name: Annotated[
        str, typer.Argument(help="Name of a Placement.", autocompletion=queries.placement_names, show_default=False)
    ] = "",
    namespace: Namespace = "",
    file: Annotated[
        str,
        typer.Option(
            "-f", "--file", metavar="FILE", help="Say what would be decided of the Placement in this file; - reads it."
        ),
    ] = "",
    output: OutputOption = Output.TABLE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Show the clusters that a Placement decides, their scores, and why it rejects the others. Nothing is changed.

    This command evaluates the Placement itself, over the objects that you may read. With -f it need not be applied.
    """
    if not name and not file:
        raise typer.BadParameter("name a Placement, or a file with one by -f")
    now = SystemClock().now()
    found = finish(_placement(name, namespace, file, kubeconfig, context, now))
    match output:
        case Output.TABLE | Output.WIDE:
            print(placement_rendering.as_text(found, now, terminal=sys.stdout.isatty()))
        case Output.JSON:
            print(as_json(found))
        case Output.YAML:
            print(as_yaml(found))


@app.command()
def psm(
    name: Annotated[str, typer.Argument(help="Name of a P2CodeSchedulingManifest.")],
    namespace: Namespace = "",
    output: OutputOption = Output.TABLE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    agent_flag: AgentFlag = [],  # noqa: B006
) -> None:
    """Show the bundles of an application, the target of each with the reason, its calls, and missing objects."""
    found = finish(_application(name, namespace, kubeconfig, context, settings_of(agent_flag)))
    match output:
        case Output.TABLE | Output.WIDE:
            print(applications.as_text(found, terminal=sys.stdout.isatty()))
        case Output.JSON:
            print(as_json(found))
        case Output.YAML:
            print(as_yaml(found))


async def _application(
    name: str, namespace: str, kubeconfig: str, context: str, settings: Settings
) -> applications.ApplicationExplanation:
    async with source(kubeconfig, context, namespace) as found:
        place = found.namespace or "default"
        read = await applications.read_application(found.client, place, name)
        return applications.explanation_of(*read, settings)


async def _placement(
    name: str, namespace: str, file: str, kubeconfig: str, context: str, now: datetime
) -> PlacementExplanation:
    async with source(kubeconfig, context, namespace) as found:
        place = found.namespace or "default"
        if file:
            placement = placement_in(text_of(file), file, name, namespace, place)
        else:
            placement = await read_placement(found.client, place, name)
        return explanation_of_placement(await read_facts(found.client, placement, now, file), now)


async def _explanation(name: str, namespace: str, kubeconfig: str, context: str, settings: Settings) -> Explanation:
    chosen = connection(kubeconfig, context)
    now = SystemClock().now()
    async with opened(chosen, "source", facts.REQUEST_SECONDS) as source:
        pod = await facts.read_pod(source, namespace or chosen.namespace, name)
        later = pod.scheduler_name != names.SCHEDULER_PROXY and await facts.was_elected_later(source, pod)
        wrong = remedy(pod, await facts.read_namespace(source, pod.namespace), later=later)
        if wrong:
            raise facts.Unexplained(wrong)
        return explanation_of(await facts.read(source, pod, settings, now), settings, now)


def remedy(pod: Object, namespace: Object | None, *, later: bool = False) -> str:
    """Return why a pod cannot be explained and what to do about it; empty for a proxy pod.

    :param namespace: of the pod, None if it could not be read
    :param later: the pod was annotated after its creation
    """
    if pod.scheduler_name == names.SCHEDULER_PROXY:
        return ""
    what = f"pod {pod.namespace}/{pod.name}"
    if is_delegate(pod.decode()):
        source = pod.labels.get(names.LABEL_PARENT_CLUSTER_NAME, "")
        where = f"in cluster {source}" if source else "in its source cluster"
        return (
            f"{what} is a delegate, made by PodChaperon {pod.controller.name if pod.controller else ''}:"
            f" explain the proxy pod that it stands for, {where}"
        )
    if is_of_a_daemon_set(pod.decode()) and _reason(pod) == REASON:
        return f"{what} is a DaemonSet's: {message(pod.node_name)}"
    enabled = namespace is not None and is_enabled(namespace.labels)
    label = command(pod.namespace)
    if is_elected(pod.decode()):
        if later:
            steps = [] if enabled else [f"run `{label}`"]
            steps.append("create the pod again with the annotation")
            return f"{what} was annotated after it had been created, which elects no pod: {', then '.join(steps)}"
        why = "there was no webhook" if enabled else "its namespace was not enabled"
        first = "see that the webhook runs" if enabled else f"run `{label}`"
        return f"{what} asks to be elected, but {why} when it was created: {first}, then create the pod again"
    steps = [] if enabled else [f"run `{label}`"]
    steps.append(f"annotate it {names.PREFIX}{names.ELECT}, and create it again")
    return f"{what} was not elected, so it runs in this cluster (scheduler {pod.scheduler_name}); {', '.join(steps)}"


def _reason(pod: Object) -> str:
    return str((pod.decode().get("status") or {}).get("reason") or "")
