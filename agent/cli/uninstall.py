"""flotilla uninstall: the hook that `helm uninstall` runs first, so that nothing blocks or remains (ruling 13)."""

import sys
from typing import Annotated

import typer

from agent.cli.options import Context, Failed, Kubeconfig, duration, run_interruptible
from agent.cli.remove_target_finalizers import let_go
from agent.cli.uninstaller import DEFAULT_SECONDS, Policy, Refused, Uninstaller
from agent.kube import config
from agent.kube.client import Client
from agent.kube.errors import InvalidConfig, KubeError
from agent.kube.session import Session


def uninstall(
    policy: Annotated[
        Policy, typer.Option(help="While proxy pods, or pods of other clusters, exist: refuse, delete or orphan them.")
    ] = Policy.REFUSE,
    timeout: Annotated[float, duration(least="1s", help="How long pods may take to go.")] = DEFAULT_SECONDS,
    namespace: Annotated[str, typer.Option(help="Namespace of the chart; by default the context's own.")] = "",
    release: Annotated[str, typer.Option(help="Name of the chart's release.")] = "flotilla",
    finalizers: Annotated[
        bool,
        typer.Option(
            "--finalizers",
            help="Only take Flotilla's own finalizer off Targets and their Secrets, for another agent.",
        ),
    ] = False,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Stop agent and webhook in a cluster and remove what they made; `helm uninstall` runs this first."""

    async def run() -> None:
        connection = config.load(kubeconfig or None, context or None)
        async with Session(connection) as session:
            if finalizers:
                await let_go(Client(session), _say)
                return
            home = namespace or connection.namespace
            await Uninstaller(Client(session), policy, home, release, timeout, _say).run()

    try:
        run_interruptible(run())
    except (Refused, Failed, KubeError, InvalidConfig) as error:
        print(f"flotilla: {error}", file=sys.stderr)
        raise typer.Exit(1) from None


def _say(text: str) -> None:
    print(text, flush=True)
