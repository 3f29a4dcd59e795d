"""Options that join, leave and export share, and the order that they form."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from agent.api.roles import OPTIONAL_FEATURES
from agent.cli.joining import arguments
from agent.cli.joining.fleet import Order
from agent.cli.options import contexts, duration
from agent.kube import kubeconfig
from agent.kube.kubeconfig import Entry

TARGET_CONTEXT = "--target-context"
TargetContexts = Annotated[
    list[str], typer.Option(TARGET_CONTEXT, help="Context of a target; may be repeated.", autocompletion=contexts)
]
TargetNames = Annotated[
    list[str], typer.Option("--target-name", help="Name of the Target; by default its context's. Once per target.")
]
SourceName = Annotated[str, typer.Option("--source-name", help="Name of the Source; by default its context's.")]
ClusterScoped = Annotated[
    bool,
    typer.Option(
        "--cluster-scoped",
        help="All namespaces: ClusterSource and ClusterTarget; -n must elect no pods in any of the clusters.",
    ),
]
TargetKubeconfig = Annotated[
    str, typer.Option("--target-kubeconfig", help="kubeconfig of the targets' contexts; by default the same.")
]
Both = Annotated[bool, typer.Option("--both", help="Both ways: each target is a source of this cluster, too.")]
AllowLoopback = Annotated[
    bool, typer.Option("--allow-loopback", help="Addresses that only this machine reaches will do.")
]
TokenDuration = Annotated[
    str, typer.Option("--token-duration", help="How long the token lives; agents renew it before it ends.")
]
Allow = Annotated[
    list[str],
    typer.Option(
        "--allow",
        help=f"What the source may use beside pods and what they name, of {', '.join(OPTIONAL_FEATURES)}.",
    ),
]
Servers = Annotated[
    list[str],
    typer.Option("--server", help="[CONTEXT=]ADDRESS of an API server as pods of the other cluster reach it."),
]
Authorities = Annotated[list[str], typer.Option("--ca-file", help="[CONTEXT=]FILE with the CA of that server.")]
Proxies = Annotated[list[str], typer.Option("--proxy-url", help="[CONTEXT=]ADDRESS of a proxy on the way to it.")]
WithoutAgent = Annotated[bool, typer.Option("--without-agent", help="Go on where no agent of Flotilla runs.")]
NewToken = Annotated[bool, typer.Option("--new-token", help="Make a new token, though the old one works.")]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Do not wait until the targets are Ready.")]
Timeout = Annotated[float, duration("--timeout", least="1s", help="How long each wait may take.")]


def documents_of(kubeconfig_file: str, targets: str) -> tuple[Entry, Entry]:
    """Return the kubeconfigs of the source and of the targets. Raises InvalidConfig."""
    source = kubeconfig.merged(kubeconfig.files(kubeconfig_file))
    return source, kubeconfig.merged(kubeconfig.files(targets)) if targets else source


@contextlib.contextmanager
def usage() -> Iterator[None]:
    """Exit with status 2 if options contradict each other."""
    try:
        yield
    except arguments.WrongUsage as error:
        raise typer.BadParameter(str(error)) from None


def order_of(
    source: str,
    targets: Sequence[str],
    target_names: Sequence[str],
    source_name: str,
    namespace: str,
    cluster_scoped: bool,
    both: bool,
) -> Order:
    """Return the order that the options form. Raises WrongUsage, Failed."""
    named = arguments.names("--target-name", target_names, targets)
    mine = arguments.names("--source-name", [source_name] if source_name else [], [source])[source]
    if mine in named.values():
        raise arguments.WrongUsage(
            f"source and target would both be named {mine}: tell them apart by --source-name or --target-name"
        )
    by_name = {name: each for each, name in named.items()}
    return Order(source, mine, by_name, namespace, cluster_scoped, both)
