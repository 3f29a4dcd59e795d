"""flotilla links: pairs of clusters between which Services are shared, with driver and cause of failures."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer

from agent.api import names
from agent.api.conditions import condition_of, find_condition
from agent.api.kinds import ENDPOINT_SLICES, GATEWAY_PEERS, SERVICE_LINKS, SERVICES, Kind
from agent.api.names.links import BY_GATEWAY, LABEL_LINK_OF, SERVICES_SHARED
from agent.cli.fleet import show
from agent.cli.fleet.source_queries import Source, read_nodes, read_targets, source
from agent.cli.fleet.units import NOTHING
from agent.cli.options import Context, Failed, Kubeconfig, Namespace, Output, OutputOption, finish
from agent.cli.output import Table
from agent.kube.errors import Forbidden, NotFound
from agent.kube.store import Key, Object
from agent.model.endpoints import is_mirror, ready
from agent.model.gatewayhosts import ready_of
from agent.model.gatewaylink import writer
from agent.model.gatewaysaid import answers
from agent.model.links import Link, peer
from agent.model.links import links as links_of
from agent.model.pod_networks import Networks, read
from agent.model.service import is_shared
from agent.model.servicerule import service_of

_GATEWAY = "gateway"


@dataclass(frozen=True)
class ServiceLink:
    """A pair of clusters, for one Service."""

    namespace: str
    service: str
    link: Link
    endpoints: int | None
    """Number of ready endpoints of the other cluster that this one has; None between two targets."""


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
            return await look(found, service)

    found = finish(run())
    table = _table(found.lines, wide=output is Output.WIDE, everywhere=all_namespaces)
    show.show(found, output, table, empty="no Service is shared", below=_why(found.lines))


async def look(where: Source, name: str) -> show.Found:
    """Return the lines of all shared Services, or of one by its name. Raises Failed, KubeError."""
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
    told_by = await _if_allowed(where, SERVICE_LINKS, notes, "ServiceLinks are not read")
    _, items = await where.client.list_raw(ENDPOINT_SLICES, where.namespace, labels=f"{names.LABEL_GLOBAL}=true")
    slices = [Object(ENDPOINT_SLICES, bytes(item)) for item in items]
    has_some = any((condition_of(each.decode(), SERVICES_SHARED) or {}).get("reason") == BY_GATEWAY for each in targets)
    left_out = "whether gateways are answered is left out"
    peers = await _if_allowed(where, GATEWAY_PEERS, notes, left_out) if has_some else []
    return show.Found("links", lines(services, targets, told, slices, told_by, peers), notes)


async def _if_allowed(where: Source, kind: Kind, notes: list[str], otherwise: str) -> list[Object]:
    """List all objects of a kind; empty with the note `otherwise` if forbidden, without one if it is not served."""
    try:
        _, items = await where.client.list_raw(kind, where.namespace)
    except NotFound:
        return []
    except Forbidden as error:
        notes.append(f"{otherwise}: {error}")
        return []
    return [Object(kind, bytes(item)) for item in items]


def lines(
    services: Iterable[Object],
    targets: Sequence[Object],
    told: Mapping[str, Networks],
    slices: Iterable[Object],
    service_links: Iterable[Object] = (),
    gateway_peers: Iterable[Object] = (),
) -> list[ServiceLink]:
    """Return lines by Service, then by pair of clusters.

    ServiceLinks take precedence over Targets: they know more about their Services.

    :param told: pod networks by virtual node
    :param gateway_peers: GatewayPeers of this cluster
    """
    linked = _by_service(service_links)
    by_gateway = {each.key: each.decode() for each in gateway_peers}
    sources = sorted({writer(each) for each in by_gateway.values()})
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
            count = None
            if link.is_home and link.driver == names.ENDPOINT_SLICES_DRIVER:
                count = known[(*service.key, origins[link.other])]
            elif link.is_home and link.driver == _GATEWAY:
                link, count = _by_gateway(link, service.key, by_gateway, sources, origins[link.other])
            found.append(ServiceLink(*service.key, link, count))
    return found


def _by_gateway(
    link: Link, service: Key, peers: Mapping[Key, dict[str, Any]], sources: Iterable[str], origin: str
) -> tuple[Link, int | None]:
    """Return the link and endpoint count that the other cluster's GatewayPeer reports, if one names the Service.

    GatewayPeers of another source may use the same cluster name, but name other Services.
    """
    for uid in sources:
        found = peers.get((service[0], names.gateway_peer(link.other, uid, origin)))
        count = ready_of(found, service[1]) if found is not None else None
        if found is not None and count is not None:
            said = answers(found, service[1])
            return replace(link, ready=said.status, reason=said.reason, message=said.message or link.message), count
    return link, None


def _by_service(service_links: Iterable[Object]) -> dict[Key, dict[tuple[str, str], ServiceLink]]:
    """Return lines from the status of ServiceLinks: by Service, then by caller and the cluster of the endpoints."""
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
    """Return the reasons why pairs are not connected, each once."""
    apart = (line.link for line in found if line.link.ready == "False")
    return list(dict.fromkeys(f"{link.one} and {link.other}: {link.message}" for link in apart))
