"""Common parts of all verbs that use clusters: options as in kubectl, error messages, exit status.

Exit status: 0 done, 1 refused or failed, 2 wrong usage (typer's own).
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Coroutine
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from agent.base import flag_values
from agent.kube import config
from agent.kube import kubeconfig as kubeconfigs
from agent.kube.client import Client
from agent.kube.errors import Forbidden, InvalidConfig, KubeError, Unauthorized, Unreachable
from agent.kube.session import Session

T = TypeVar("T")

REQUEST_SECONDS = 10.0


def contexts(typed: typer.Context, incomplete: str) -> list[str]:
    """Return context names for shell completion; empty if no kubeconfig can be read."""
    try:
        document = kubeconfigs.merged(kubeconfigs.files(str(typed.params.get("kubeconfig") or "")))
    except InvalidConfig:
        return []
    names = (str(each.get("name")) for each in document["contexts"])
    return sorted(name for name in names if name.startswith(incomplete))


Kubeconfig = Annotated[
    str, typer.Option("--kubeconfig", help="kubeconfig; by default $KUBECONFIG, or ~/.kube/config.", metavar="FILE")
]
Context = Annotated[
    str,
    typer.Option("--context", help="Context of the kubeconfig; by default its current one.", autocompletion=contexts),
]
Namespace = Annotated[str, typer.Option("-n", "--namespace", help="Namespace; by default the context's.")]


class Output(StrEnum):
    """Output format."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


OutputOption = Annotated[Output, typer.Option("-o", "--output", help="Format.")]


def duration(*names: str, help: str, least: str = "0s") -> Any:
    """Return an option whose value is a duration such as 90s or 5m, or a number of seconds."""
    read = flag_values.duration(least).read

    def seconds(given: object) -> float:
        try:
            return read(str(given))
        except ValueError as error:
            raise typer.BadParameter(f"{given}: {error}") from None

    return typer.Option(*names, parser=seconds, metavar="DURATION", help=help)


class Failed(Exception):
    """Failure of a command; the message gives the reason and the remedy."""


def connection(kubeconfig: str, context: str) -> config.Connection:
    """Connect to the cluster that the options name, like kubectl: in a pod, too, kubeconfigs take precedence.

    Raises InvalidConfig.
    """
    try:
        files = kubeconfigs.files(kubeconfig)
    except InvalidConfig:
        if kubeconfig or context or os.environ.get("KUBECONFIG"):
            raise
        return config.load()
    return config.of_document(kubeconfigs.merged(files), context, base=Path(), plugins=True)


@contextlib.asynccontextmanager
async def opened(
    connection: config.Connection, name: str = "", seconds: float = REQUEST_SECONDS
) -> AsyncIterator[Client]:
    """Connect to a cluster; `seconds` is the timeout of requests. Raises InvalidConfig."""
    async with Session(connection, name=name, timeout=seconds) as session:
        yield Client(session)


def run_interruptible(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's work and return its result. Ctrl-C cancels it without a stack trace."""

    async def interruptible() -> T:
        task = asyncio.current_task()
        assert task is not None

        def tell(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            # A signal may interrupt a callback between its check of a future and its use, when the future is cancelled.
            if not (task.cancelling() and isinstance(context.get("exception"), asyncio.InvalidStateError)):
                loop.default_exception_handler(context)

        asyncio.get_running_loop().set_exception_handler(tell)
        return await work

    return asyncio.run(interruptible())


def finish(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's work and return its result. Prints a failure on standard error and exits with status 1."""
    try:
        return run_interruptible(work)
    except (Failed, KubeError) as error:
        print(f"flotilla: {told(error)}", file=sys.stderr)
        raise typer.Exit(1) from None


def told(error: Exception, cluster: str = "the cluster") -> str:
    """Return the message about an error for the user, with the remedy."""
    match error:
        case Unauthorized():
            return (
                f"{cluster} refuses your credentials ({error}): they are wrong or have expired; renew them, or choose"
                " another context"
            )
        case Forbidden():
            return f"{cluster} does not let you: {error}; ask its administrator for this right, or choose another user"
        case Unreachable():
            return (
                f"{cluster} cannot be reached ({error}): check the server's address in the kubeconfig, and the way, or"
                " choose another context"
            )
        case _:
            return str(error)
