"""flotilla explain: why a pod is where it is, or what it waits for."""

import sys
from typing import Annotated

import typer

from agent.base.clock import SystemClock
from agent.cli.explaining import facts, rendering
from agent.cli.explaining.explanation import Explanation, explanation_of
from agent.cli.explaining.stranger import remedy
from agent.cli.options import Context, Kubeconfig, Namespace, Output, OutputOption, connection, finish, opened
from agent.cli.output import as_json, as_yaml
from agent.settings import InvalidSetting, Settings, parse

app = typer.Typer(help="Say why a pod is where it is, or what it waits for.", no_args_is_help=True)


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
    agent_flag: Annotated[
        list[str], typer.Option(help="Flag of the agent that bears on ranking, such as --agent-flag=--dwell=60.")
    ] = [],  # noqa: B006
) -> None:
    """Rank the targets for a proxy pod as the agent does, and say what it waits for. Nothing is changed.

    Targets are asked with their kubeconfig Secrets, as far as you may read them.
    """
    try:
        settings = parse(agent_flag)
    except InvalidSetting as error:
        raise typer.BadParameter(str(error)) from None
    found = finish(_explanation(name, namespace, kubeconfig, context, settings))
    match output:
        case Output.TABLE | Output.WIDE:
            print(rendering.as_text(found, terminal=sys.stdout.isatty()))
        case Output.JSON:
            print(as_json(found))
        case Output.YAML:
            print(as_yaml(found))


async def _explanation(name: str, namespace: str, kubeconfig: str, context: str, settings: Settings) -> Explanation:
    chosen = connection(kubeconfig, context)
    now = SystemClock().now()
    async with opened(chosen, "source", facts.REQUEST_SECONDS) as source:
        pod = await facts.read_pod(source, namespace or chosen.namespace, name)
        wrong = remedy(pod, await facts.read_namespace(source, pod.namespace))
        if wrong:
            raise facts.Unexplained(wrong)
        return explanation_of(await facts.read(source, pod, settings, now), settings, now)
