"""flotilla export: the kubeconfig of a source as a Secret, for users without contexts of both clusters."""

import contextlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated

import msgspec
import typer

from agent.api.kinds import NAMESPACES, ROLES, SERVICE_ACCOUNTS
from agent.api.names import source_renewal
from agent.cli.joining import arguments, credentials, manifests
from agent.cli.joining.checks import keep_accounts_apart
from agent.cli.joining.contexts import Side, Way, address, side, telling
from agent.cli.joining.joiner import DEFAULT_TOKEN
from agent.cli.joining.manifests import Names, Raw
from agent.cli.joining.objects import Report, ensure, find, title, until
from agent.cli.joining.options import (
    Allow,
    AllowLoopback,
    ClusterScoped,
    Timeout,
    TokenDuration,
    documents_of,
    usage,
)
from agent.cli.options import Context, Failed, Kubeconfig, Namespace, Output, finish
from agent.cli.output import as_json, as_yaml
from agent.kube import kubeconfig as kubeconfigs
from agent.kube.errors import Forbidden
from agent.model import token

OutputOption = Annotated[Output, typer.Option("-o", "--output", help="yaml or json.")]


Create = Annotated[
    bool, typer.Option("--create", help="Make what is missing: the Source, and the right to renew its token.")
]
Server = Annotated[
    str, typer.Option("--server", help="[CONTEXT=]ADDRESS of the API server as pods of the source reach it.")
]


class _Asked(msgspec.Struct, frozen=True):
    """Arguments of the command except cluster and format."""

    source: str
    name: str
    create: bool
    namespace: str
    cluster_scoped: bool
    way: Callable[[str], Way]
    """Returns the address options for a context."""
    allow: Sequence[str]
    token_duration: str
    timeout: float


def export(
    source: Annotated[str, typer.Argument(help="Name of a Source, or of its service account.")],
    name: Annotated[str, typer.Option("--as", help="Name of the Secret; by default the context's.")] = "",
    create: Create = False,
    with_target: Annotated[bool, typer.Option("--with-target", help="Print the Target, too.")] = False,
    namespace: Namespace = "",
    cluster_scoped: ClusterScoped = False,
    server: Server = "",
    ca_file: Annotated[str, typer.Option(help="[CONTEXT=]FILE with the CA of that server.")] = "",
    proxy_url: Annotated[str, typer.Option(help="[CONTEXT=]ADDRESS of a proxy on the way to it.")] = "",
    allow: Allow = [],  # noqa: B006
    allow_loopback: AllowLoopback = False,
    token_duration: TokenDuration = DEFAULT_TOKEN,
    timeout: Timeout = 60.0,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    output: OutputOption = Output.YAML,
) -> None:
    """Print the Secret with which a source uses this cluster as its target: `kubectl apply -f -` it there.

    With --cluster-scoped, -n is the namespace of service account and Secret.
    """

    way = partial(way_of, server=server, authority=ca_file, proxy=proxy_url, loopback=allow_loopback)
    asked = _Asked(source, name, create, namespace, cluster_scoped, way, allow, token_duration, timeout)
    objects = [manifests.without_none(each) for each in finish(_made(asked, kubeconfig, context))][
        : 2 if with_target else 1
    ]
    if output is Output.JSON:
        print(as_json(objects[0] if len(objects) == 1 else {"apiVersion": "v1", "kind": "List", "items": objects}))
    else:
        print("\n---\n".join(as_yaml(each) for each in objects))


async def _made(asked: _Asked, kubeconfig: str, context: str) -> list[Raw]:
    document = documents_of(kubeconfig, "")[0]
    async with side(document, context) as target:
        way = asked.way(target.context)
        with usage():
            name = asked.name
            called = arguments.names("--as", [name] if name else [], [target.context])[target.context]
            seconds = arguments.seconds_of(asked.token_duration)
            features = arguments.features(asked.allow)
            if features and not asked.create:
                raise arguments.WrongUsage("--allow is for a Source that --create makes: give both")
        place = asked.namespace or target.namespace
        names = Names(asked.source, called, asked.cluster_scoped, place, place)
        entry = address(target.entry, target.context, way)
        with telling(target.title):
            names, uid = await _account(target, names, features or (), create=asked.create, seconds=asked.timeout)
            text = await credentials.request_token(target.client, names.target_namespace, names.source, seconds)
            note = await _ends(target, names, text)
        if note:
            print(f"Note: {note}", file=sys.stderr)
        found = kubeconfigs.with_token(called, entry, names.target_namespace, text)
        return [manifests.secret(called, place, found, uid), manifests.target(names, uid)]


def way_of(context: str, server: str, authority: str, proxy: str, *, loopback: bool) -> Way:
    """Return the address options as `join` parses them: its messages propose options that must work here too."""
    given = (("--server", server), ("--ca-file", authority), ("--proxy-url", proxy))
    server, authority, proxy = (
        arguments.by_context(option, [value] if value else [], [context], context).get(context, "")
        for option, value in given
    )
    return Way(server, authority, proxy, loopback)


async def _account(
    target: Side, names: Names, allow: Sequence[str], *, create: bool, seconds: float
) -> tuple[Names, str]:
    """Return the names with the existing service account of the Source, and the cluster's UID."""
    uid = await _uid(target)
    found = await find(target.client, names.source_kind, names.source, names.source_place)
    if found is None and not create:
        account = await find(target.client, SERVICE_ACCOUNTS, names.source, names.target_namespace)
        if account is None:
            raise Failed(
                f"there is no {title(names.source_kind, names.source, names.source_place)} in {target.title}, nor a"
                f" service account of that name: make the {names.source_kind.name} with --create, or"
                " name another namespace with -n"
            )
        return names, uid
    report = Report(names.target, names.source_place or "", names.source, target.context)
    if found is None:
        if names.cluster_scoped:
            await keep_accounts_apart(target, (), names, [])
        found = await ensure(target, names.source_kind, manifests.source(names, "", allow), report)
    names = _with_account(names, found)
    if create:
        for kind, manifest in manifests.renewal(names, found):
            await ensure(target, kind, manifest, report)
    await until(
        lambda: find(target.client, SERVICE_ACCOUNTS, names.source, names.target_namespace),
        seconds,
        lambda: (
            f"there is no {title(SERVICE_ACCOUNTS, names.source, names.target_namespace)} in {target.title}, which the"
            " agent there makes of the Source: see that it runs"
        ),
    )
    return names, uid


def _with_account(names: Names, source: Raw) -> Names:
    """Return `names` with name and namespace of the service account that a Source names."""
    spec = source.get("spec") or {}
    account = spec.get("serviceAccount") or {}
    name = account.get("name") if names.cluster_scoped else spec.get("serviceAccountName")
    if not name:
        what = title(names.source_kind, names.source, names.source_place)
        raise Failed(f"{what} names no service account: set one in its spec, or choose another Source")
    place = account.get("namespace") if names.cluster_scoped else names.target_namespace
    return replace(names, source=name, target_namespace=place or names.target_namespace)


async def _ends(target: Side, names: Names, text: str) -> str:
    """Return a warning if the token's account may not renew it, else an empty text."""
    claims, role = token.claims(text), source_renewal(names.source)
    with contextlib.suppress(Forbidden):
        if claims is not None and await find(target.client, ROLES, role, names.target_namespace) is None:
            return (
                f"this token ends at {claims.expires:%Y-%m-%dT%H:%M:%SZ}, for its account may not renew it: --create"
                f" makes {title(ROLES, role, names.target_namespace)}, which lets it"
            )
    return ""


async def _uid(target: Side) -> str:
    with contextlib.suppress(Forbidden):
        return str((await target.client.get(NAMESPACES, "kube-system"))["metadata"]["uid"])
    return ""
