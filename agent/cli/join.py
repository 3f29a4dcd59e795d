"""flotilla join: allow the pods of one cluster to run in others."""

from collections.abc import Sequence
from dataclasses import replace

from agent.cli.joining import arguments
from agent.cli.joining.contexts import Way
from agent.cli.joining.fleet import Order, for_all, opened_pairs
from agent.cli.joining.joiner import DEFAULT_TOKEN, Terms
from agent.cli.joining.objects import Report
from agent.cli.joining.options import (
    Allow,
    AllowLoopback,
    Authorities,
    Both,
    ClusterScoped,
    NewToken,
    NoWait,
    Proxies,
    Servers,
    SourceName,
    TargetContexts,
    TargetKubeconfig,
    TargetNames,
    Timeout,
    TokenDuration,
    WithoutAgent,
    documents_of,
    order_of,
    usage,
)
from agent.cli.joining.pairs import Joining
from agent.cli.joining.results import show
from agent.cli.options import Context, Kubeconfig, Namespace, Output, OutputOption, finish
from agent.cli.progress import default
from agent.kube import kubeconfig as kubeconfigs

AGAIN = "Running the same command again goes on from there; `flotilla leave` with the same contexts undoes it"


def join(
    target_context: TargetContexts,
    namespace: Namespace = "",
    cluster_scoped: ClusterScoped = False,
    both: Both = False,
    server: Servers = [],  # noqa: B006
    ca_file: Authorities = [],  # noqa: B006
    proxy_url: Proxies = [],  # noqa: B006
    allow: Allow = [],  # noqa: B006
    allow_loopback: AllowLoopback = False,
    source_name: SourceName = "",
    target_name: TargetNames = [],  # noqa: B006
    token_duration: TokenDuration = DEFAULT_TOKEN,
    new_token: NewToken = False,
    without_agent: WithoutAgent = False,
    no_wait: NoWait = False,
    timeout: Timeout = 60.0,
    target_kubeconfig: TargetKubeconfig = "",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Let pods of one cluster, the source, run in others, its targets. What is there already stays as it is.

    In each target it makes a Source, and a token for it; in the source a Secret with it, and a Target.
    """

    async def run() -> list[Report]:
        documents = documents_of(kubeconfig, target_kubeconfig)
        source = kubeconfigs.context_of(documents[0], context)[0]
        with usage():
            order = order_of(source, target_context, target_name, source_name, namespace, cluster_scoped, both)
            order = _with_ways(order, server, ca_file, proxy_url, loopback=allow_loopback, agentless=without_agent)
            seconds = arguments.seconds_of(token_duration)
            features = arguments.features(allow)
        terms = Terms(Way(loopback=allow_loopback), seconds, new_token, not no_wait, features, timeout)
        async with opened_pairs(order, *documents) as pairs:
            return await for_all(pairs, "join", default(), Joining(order, terms))

    show(finish(run()), output, again=AGAIN)


def _with_ways(
    order: Order,
    servers: Sequence[str],
    authorities: Sequence[str],
    proxies: Sequence[str],
    *,
    loopback: bool,
    agentless: bool,
) -> Order:
    targets = list(order.targets.values())
    contexts = [*targets, order.source] if order.both else targets
    only = targets[0] if len(contexts) == 1 else None
    given = (("--server", servers), ("--ca-file", authorities), ("--proxy-url", proxies))
    server, authority, proxy = (arguments.by_context(option, values, contexts, only) for option, values in given)
    ways = {
        each: Way(server.get(each, ""), authority.get(each, ""), proxy.get(each, ""), loopback) for each in contexts
    }
    return replace(order, ways=ways, agentless=agentless)
