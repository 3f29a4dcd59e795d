"""`hack/bench`: runs a benchmark, prints the result, and removes its clusters in any case."""

import argparse
import asyncio
import dataclasses
import logging
import sys
from collections.abc import Coroutine
from typing import Any

from agent.api.names import SCHEDULING_MODES
from agent.base.eventloop import EVENT_LOOPS
from agent.cli.progress import default
from agent.kube.errors import KubeError
from hack.lab.benchmarks import report
from hack.lab.benchmarks.applications import MANIFESTS, applications
from hack.lab.benchmarks.applied import WORKLOADS, applied
from hack.lab.benchmarks.arguments import cores, count, rate
from hack.lab.benchmarks.burst import Burst, burst
from hack.lab.benchmarks.errors import BenchError
from hack.lab.benchmarks.failover import LOST_PODS, OWNERS, failover
from hack.lab.benchmarks.follow import FOLLOWED, follow
from hack.lab.benchmarks.gateway import STREAM_MIB, gateway
from hack.lab.benchmarks.gatewaysize import size, sized
from hack.lab.benchmarks.idle import TARGETS, idle
from hack.lab.benchmarks.links import ADDRESSES, DRIVERS, LINKS, PACE, TARGETS_ALL, links
from hack.lab.benchmarks.logs import LOG_MIB, logs
from hack.lab.benchmarks.mixed import BIG, SMALL, mixed
from hack.lab.benchmarks.move import MOVED, move
from hack.lab.benchmarks.nodes import NODES_ALL, nodes
from hack.lab.benchmarks.peers import TRIES, peers
from hack.lab.benchmarks.place import PODS, place
from hack.lab.benchmarks.placement import placements
from hack.lab.benchmarks.services import PODS_ALL, SERVICES_ALL, ServiceLoad, services
from hack.lab.benchmarks.signals import INTERRUPTED, until_signal
from hack.lab.benchmarks.silent import silent
from hack.lab.sandbox import SandboxError

Work = Coroutine[Any, Any, tuple[list[str], dict[str, Any]]]


def main(arguments: list[str]) -> int:
    """Return the exit status: 0 after a measurement, 1 after a failure, 130 after a signal."""
    options = parse(arguments)
    logging.basicConfig(level=logging.ERROR, format="%(levelname)s %(name)s: %(message)s")
    try:
        lines, figures = _measured(options)
    except (BenchError, SandboxError, KubeError) as error:
        print(f"hack/bench: {error}", file=sys.stderr)
        return 1
    except (asyncio.CancelledError, KeyboardInterrupt):
        print("hack/bench: interrupted; everything started was taken down", file=sys.stderr)
        return INTERRUPTED
    print("\n".join(lines))
    if options.json:
        print(report.json_line(figures))
    return 0


def _measured(options: argparse.Namespace) -> tuple[list[str], dict[str, Any]]:
    if options.benchmark == "place":
        return place(options.pods)
    if options.benchmark == "applications" and not options.clusters:
        return applications(options.manifests)
    progress = default()
    work: Work
    match options.benchmark:
        case "burst":
            names = [each.name for each in dataclasses.fields(Burst)]
            work = burst(Burst(**{name: getattr(options, name) for name in names}), progress)
        case "mixed":
            work = mixed(options.pods, options.big, progress=progress)
        case "follow":
            work = follow(options.pods, progress)
        case "services":
            load = ServiceLoad(options.services, options.pods, options.rounds)
            work = services(load, progress, options.against)
        case "move":
            work = move(options.pods, progress)
        case "placement":
            work = placements(progress)
        case "applications":
            work = applied(options.workloads, options.clusters, progress, profile=options.profile)
        case "logs":
            work = logs(options.mib, progress)
        case "links":
            work = links((options.links, options.targets), progress, options.driver, options.pace)
        case "failover":
            work = failover(options.owners, options.pods, progress)
        case "peers":
            work = peers(options.tries, progress)
        case "gateway":
            work = sized(options.size) if options.size else gateway(options.mib, progress)
        case "silent":
            work = silent(options.targets, progress)
        case "nodes":
            work = nodes(options.nodes, progress)
        case _:
            work = idle(options.targets, progress)
    return asyncio.run(until_signal("hack/bench", work))


def parse(arguments: list[str]) -> argparse.Namespace:
    """Parse the options. Exits with usage if they are invalid."""
    parser = argparse.ArgumentParser(prog="hack/bench", description="Measure Flotilla beside a plain cluster.")
    benchmarks = parser.add_subparsers(dest="benchmark", required=True, metavar="BENCHMARK")
    bursts = benchmarks.add_parser("burst", help="N pods at once, plain in one cluster and elected over two targets")
    bursts.add_argument("--pods", type=count, default=200, metavar="N", help="how many pods (default 200)")
    bursts.add_argument("--profile", action="store_true", help="profile the source's agent; print where it spends time")
    bursts.add_argument("--placement", action="store_true", help="once more with pods that follow a Placement")
    bursts.add_argument("--mode", choices=SCHEDULING_MODES, default="ranked", help="how elected pods are scheduled")
    bursts.add_argument(
        "--pairs", type=count, default=1, metavar="N", help="how often both; the median is told (default 1)"
    )
    bursts.add_argument(
        "--own-cores", type=cores, metavar="N", help="cores of its own for each cluster, such as 0.6 (root)"
    )
    bursts.add_argument("--targets", type=count, default=2, metavar="N", help="how many target clusters (default 2)")
    bursts.add_argument(
        "--reserve-candidates", type=count, default=0, metavar="N", help="the agent's setting, for --mode reserve"
    )
    bursts.add_argument(
        "--event-loop", choices=EVENT_LOOPS, default="asyncio", help="the setting of agents and webhooks"
    )
    mixes = benchmarks.add_parser("mixed", help="N small pods alone, then beside pods that fit nowhere")
    mixes.add_argument("--pods", type=count, default=SMALL, metavar="N", help=f"how many small pods (default {SMALL})")
    mixes.add_argument("--big", type=count, default=BIG, metavar="N", help=f"how many that fit nowhere (default {BIG})")
    idles = benchmarks.add_parser("idle", help="what an agent with many targets costs while nothing happens")
    idles.add_argument(
        "--targets", type=count, default=TARGETS, metavar="N", help=f"how many Targets (default {TARGETS})"
    )
    still = benchmarks.add_parser("silent", help="all targets stop answering at once, and come back")
    still.add_argument(
        "--targets", type=count, default=TARGETS, metavar="N", help=f"how many Targets (default {TARGETS})"
    )
    many = benchmarks.add_parser("nodes", help="the agent of a target with thousands of nodes: memory, and summaries")
    many.add_argument("--nodes", type=count, default=NODES_ALL, metavar="N", help=f"how many (default {NODES_ALL})")
    places = benchmarks.add_parser("place", help="the pure ranking of one pod over 100 and 1,000 targets, no clusters")
    places.add_argument("--pods", type=count, default=PODS, metavar="N", help=f"how many pods (default {PODS})")
    shared = benchmarks.add_parser(
        "services", help="N Services: from the last delegate Ready to all EndpointSlices right"
    )
    shared.add_argument(
        "--services", type=count, default=SERVICES_ALL, metavar="N", help=f"how many Services (default {SERVICES_ALL})"
    )
    shared.add_argument(
        "--pods", type=count, default=PODS_ALL, metavar="N", help=f"how many pods in all (default {PODS_ALL})"
    )
    shared.add_argument("--against", default="", metavar="COMMIT", help="measure the agents of this commit, too")
    shared.add_argument(
        "--rounds", type=count, default=1, metavar="N", help="how often; medians are printed (default 1)"
    )
    follows = benchmarks.add_parser("follow", help="N pods, each with a ConfigMap and a Secret of its own, and without")
    follows.add_argument(
        "--pods", type=count, default=FOLLOWED, metavar="N", help=f"how many pods (default {FOLLOWED})"
    )
    moves = benchmarks.add_parser("move", help="N pods to another target by one annotation, beside a plain rollout")
    moves.add_argument("--pods", type=count, default=MOVED, metavar="N", help=f"how many pods (default {MOVED})")
    streams = benchmarks.add_parser("logs", help="logs and exec through a virtual node, beside the target itself")
    streams.add_argument("--mib", type=count, default=LOG_MIB, metavar="N", help=f"size of the log (default {LOG_MIB})")
    decided = benchmarks.add_parser("placement", help="Placements over 1,000 ManagedClusters: time, writes, memory")
    apps = benchmarks.add_parser(
        "applications", help="check and bundle one of P2CODE's applications; with --clusters, until all of it runs"
    )
    apps.add_argument(
        "--manifests", type=count, default=MANIFESTS, metavar="N", help=f"how many manifests (default {MANIFESTS})"
    )
    apps.add_argument(
        "--clusters", type=count, metavar="N", help="run one over N targets, which --manifests is not for"
    )
    apps.add_argument(
        "--workloads", type=count, default=WORKLOADS, metavar="N", help=f"with --clusters (default {WORKLOADS})"
    )
    apps.add_argument("--profile", action="store_true", help="with --clusters, profile the source's agent")
    gates = benchmarks.add_parser("gateway", help="a stream and connections through two gateways, and directly")
    gates.add_argument(
        "--mib", type=count, default=STREAM_MIB, metavar="N", help=f"length of the stream (default {STREAM_MIB})"
    )
    gates.add_argument(
        "--size",
        type=size,
        metavar="NxSxC",
        help="instead, CPU of one change and memory of Envoy with N namespaces, S Services in each,"
        " C clusters, such as 100x20x20",
    )
    linked = benchmarks.add_parser("links", help="shared Services over many Targets until their links are Programmed")
    linked.add_argument("--links", type=count, default=LINKS, metavar="N", help=f"how many (default {LINKS})")
    linked.add_argument(
        "--targets", type=count, default=TARGETS_ALL, metavar="N", help=f"over how many Targets (default {TARGETS_ALL})"
    )
    linked.add_argument(
        "--pace", type=rate, default=PACE, metavar="N", help=f"Services created in a second (default {PACE:g})"
    )
    linked.add_argument(
        "--driver", choices=DRIVERS, default=ADDRESSES, help=f"between all clusters (default {ADDRESSES})"
    )
    lost = benchmarks.add_parser("failover", help="a target is cut off, until all its pods run in two others (root)")
    lost.add_argument(
        "--owners", type=count, default=OWNERS, metavar="N", help=f"how many Deployments (default {OWNERS})"
    )
    lost.add_argument("--pods", type=count, default=LOST_PODS, metavar="N", help=f"pods (default {LOST_PODS})")
    failing = benchmarks.add_parser("peers", help="all gateways of a peer stand still, until nobody is sent there")
    failing.add_argument("--tries", type=count, default=TRIES, metavar="N", help=f"how often (default {TRIES})")
    one = (bursts, mixes, idles, still, many, places, shared, follows, moves, streams, decided, gates, apps, linked)
    for parser_ in (*one, lost, failing):
        parser_.add_argument("--json", action="store_true", help="print the result as a JSON object on the last line")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
