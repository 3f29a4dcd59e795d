"""flotilla links: between which clusters endpoints of shared Services are told, by which driver, and why not."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from agent.api import names
from agent.api.conditions import find_condition
from agent.api.kinds import ENDPOINT_SLICES, SERVICE_LINKS, SERVICES
from agent.api.names.links import LABEL_LINK_OF
from agent.cli.fleet import show
from agent.cli.fleet.source_queries import Source, read_nodes, read_targets, source
from agent.cli.fleet.units import NOTHING
from agent.cli.options import Context, Failed, Kubeconfig, Namespace, Output, OutputOption, finish
from agent.cli.output import Table
from agent.kube.errors import Forbidden, NotFound
from agent.kube.store import Key, Object
from agent.model.endpoints import is_mirror, ready
from agent.model.flatness import Networks, read
from agent.model.links import Link, peer
from agent.model.links import links as links_of
from agent.model.service import is_shared
from agent.model.servicerule import service_of


@dataclass(frozen=True)
class ServiceLink:
    """A pair of clusters, for one Service."""

    namespace: str
    service: str
    link: Link
    endpoints: int | None
    """Ready ones of the other cluster that this one knows; None between two targets."""


def links(
    service: Annotated[str, typer.Argument(help="Only the Service of this name.")] = "",
    namespace: Namespace = "",
    all_namespaces: show.AllNamespaces = False,
    output: OutputOption = Output.TABLE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Show shared Services, a line per pair of clusters: driver, whether endpoints are told, or why not.

    What this cluster knows of it; no target is asked.
    """

    async def run() -> show.Found:
        async with source(kubeconfig, context, namespace, everywhere=all_namespaces) as found:
            return await _look(found, service)

    found = finish(run())
    table = _table(found.lines, wide=output is Output.WIDE, everywhere=all_namespaces)
    show.show(found, output, table, empty="no Service is shared", below=_why(found.lines))


async def _look(where: Source, name: str) -> show.Found:
    """Raises Failed, KubeError."""
    notes: list[str] = []
    targets = await read_targets(where.client, where.namespace, notes)
    try:
        told = {node: read(found.annotations).pods for node, found in (await read_nodes(where.client)).items()}
    except Forbidden as error:
        told = {}
        notes.append(f"pod networks of targets are not compared: {error}")
    _, items = await where.client.list_raw(SERVICES, where.namespace)
    found = (Object(SERVICES, bytes(item)) for item in items)
    services = [each for each in found if is_shared(each.annotations) and LABEL_LINK_OF not in each.labels]
    if name and not (services := [each for each in services if each.name == name]):
        raise Failed(f"no Service {name} is shared with other clusters here")
    told_by = await _service_links(where, notes)
    _, items = await where.client.list_raw(ENDPOINT_SLICES, where.namespace, labels=f"{names.LABEL_GLOBAL}=true")
    slices = [Object(ENDPOINT_SLICES, bytes(item)) for item in items]
    return show.Found("links", lines(services, targets, told, slices, told_by), notes)


async def _service_links(where: Source, notes: list[str]) -> list[Object]:
    try:
        _, items = await where.client.list_raw(SERVICE_LINKS, where.namespace)
    except NotFound:
        return []
    except Forbidden as error:
        notes.append(f"ServiceLinks are not read: {error}")
        return []
    return [Object(SERVICE_LINKS, bytes(item)) for item in items]


def lines(
    services: Iterable[Object],
    targets: Sequence[Object],
    told: Mapping[str, Networks],
    slices: Iterable[Object],
    service_links: Iterable[Object] = (),
) -> list[ServiceLink]:
    """By Service, then by pair. `told` are the pod networks by virtual node.

    What ServiceLinks tell counts: of Services that have one they know more than Targets do.
    """
    linked = _by_service(service_links)
    known: Counter[tuple[str, str, str]] = Counter()
    for slice in slices:
        if is_mirror(slice.labels):
            key = (slice.namespace, slice.labels.get(names.LABEL_SERVICE_NAME, ""), slice.labels[names.LABEL_ORIGIN])
            known[key] += sum(map(len, ready(slice.decode()).values()))
    found: list[ServiceLink] = []
    for service in sorted(services, key=lambda each: each.key):
        if service.key in linked:
            found += linked[service.key].values()
            continue
        serving = [each for each in targets if each.namespace in ("", service.namespace)]
        origins = {each.name: names.origin(*each.key) for each in serving}
        peers = [peer(each.decode(), told.get(names.virtual_node(*each.key), ())) for each in serving]
        for link in links_of(peers):
            at_home = link.driver == names.ENDPOINT_SLICES_DRIVER and link.is_home
            count = known[(*service.key, origins[link.other])] if at_home else None
            found.append(ServiceLink(*service.key, link, count))
    return found


def _by_service(service_links: Iterable[Object]) -> dict[Key, dict[tuple[str, str], ServiceLink]]:
    """Those that somebody has told of, by Service and by the two clusters: callers first, then whose endpoints."""
    found: dict[Key, dict[tuple[str, str], ServiceLink]] = {}
    for obj in sorted(service_links, key=lambda each: each.key):
        manifest = obj.decode()
        status, service = manifest.get("status") or {}, (obj.namespace, service_of(manifest))
        lines = found.setdefault(service, {}) if status else {}
        bad = find_condition(status.get("conditions"), "Accepted") or {}
        if bad.get("status") == "False":
            link = Link(f"servicelink/{obj.name}", NOTHING, "", "False", bad["reason"], bad["message"])
            lines[link.one, ""] = ServiceLink(*service, link, None)
        for row in status.get("clusters") or ():
            sources = row.get("from") or ()
            for other in sources:
                driver, count = row["driver"], row.get("endpoints") if len(sources) == 1 else None
                here = row.get("namespace") in (None, obj.namespace)
                callers = row["cluster"] if here else f"{row['cluster']}/{row['namespace']}"
                link = Link(callers, other, driver, row["ready"], row["reason"], row.get("message", ""))
                lines[link.one, other] = ServiceLink(*service, link, count)
    return found


def _table(found: Sequence[ServiceLink], *, wide: bool, everywhere: bool) -> Table:
    heads = ["SERVICE", "BETWEEN", "AND", "DRIVER", "READY", "REASON", "ENDPOINTS"]
    rows = []
    for line in found:
        link, count = line.link, NOTHING if line.endpoints is None else str(line.endpoints)
        row = [line.service, link.one, link.other, link.driver or NOTHING, link.ready, link.reason, count]
        rows.append([*([line.namespace] if everywhere else []), *row, *([link.message] if wide else [])])
    return [*(["NAMESPACE"] if everywhere else []), *heads, *(["MESSAGE"] if wide else [])], rows


def _why(found: Iterable[ServiceLink]) -> list[str]:
    """What keeps pairs apart, each once."""
    apart = (line.link for line in found if line.link.ready == "False")
    return list(dict.fromkeys(f"{link.one} and {link.other}: {link.message}" for link in apart))
