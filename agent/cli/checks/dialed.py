"""Findings from the gateways that doctor has called: whether they answer, and which side refuses. Pure."""

from collections.abc import Iterator

from agent.cli.checks.finding import Finding, ok, warn
from agent.cli.checks.view import Call, Verdict, View
from agent.model.abridged import abridged
from agent.model.gatewayhosts import EVERY_CALLED

_SHOWN = 3
_SEE_PEER = "see its Deployment and Service of gateways, and firewalls between here and there"
_WORDS: dict[Verdict, tuple[str, str]] = {
    Verdict.UNREACHABLE: ("does not answer", _SEE_PEER),
    Verdict.NO_TLS: ("speaks no TLS 1.3, so it is no gateway", "see what that address leads to, and correct it there"),
    Verdict.NOT_LINKED: (
        "the other side refuses: it knows no such server name, and closes without showing a certificate",
        "see that it has a GatewayPeer of this cluster's UID that is not Invalid, and that no proxy between ends TLS",
    ),
    Verdict.OTHER_CA: (
        "this side refuses: the certificate is of another CA than the GatewayPeer's spec.ca",
        "see that the address leads to that cluster's gateways, and that its Target, which tells the CA, is connected",
    ),
    Verdict.OTHER_CLUSTER: (
        "this side refuses: the certificate is another cluster's",
        "see that the address leads to that cluster's gateways: two clusters may tell the same one",
    ),
    Verdict.EXPIRED: (
        "this side refuses: the certificate has expired",
        "see that an agent leads there and that its gateways have the Secret as it is; and this machine's clock",
    ),
    Verdict.NOT_ADMITTED: (
        "the other side refuses this cluster's certificate",
        "see that its GatewayPeer for this cluster has this cluster's CA and UID: its Source has to allow gateway",
    ),
}


def gateways(view: View) -> Iterator[Finding]:
    """Check that gateways answer calls from this machine, and that each side accepts the other's certificate."""
    bad: dict[tuple[str, Verdict, str], list[Call]] = {}
    for call in view.calls:
        if call.heard.verdict not in (Verdict.ADMITTED, Verdict.UNASKED):
            bad.setdefault((call.address, call.heard.verdict, call.heard.detail), []).append(call)
    for (address, verdict, detail), calls in bad.items():
        yield _finding(address, verdict, detail, calls)
    well = {call.address for call in view.calls} - {address for address, *_ in bad}
    unasked = {call.address for call in view.calls if call.heard.verdict is Verdict.UNASKED and call.peer}
    if admitted := well - unasked:
        yield ok("gateways called from here", f"{len(admitted)} addresses answer, and each side takes the other's word")
    if untold := well & unasked:
        yield ok(
            "gateways called from here",
            f"{len(untold)} addresses show the right certificate; whether they take ours could not be asked",
        )


def _finding(address: str, verdict: Verdict, detail: str, calls: list[Call]) -> Finding:
    what, remedy = _WORDS[verdict]
    own = not calls[0].peer
    about = f"gateway {address} of " + ("this cluster" if own else _named(calls))
    what = f"{what} ({detail})" if detail else what
    if verdict is Verdict.UNREACHABLE and (own or all(call.connected for call in calls)):
        # The user's machine may lack a route that gateways have.
        return ok(about, f"{what} where this runs" + ("" if own else "; it answers this cluster's gateways"))
    return warn(about, what, remedy)


def _named(calls: list[Call]) -> str:
    return abridged(sorted({f"{call.namespace}/{call.peer}" for call in calls}), _SHOWN)


def exposed(view: View) -> Iterator[Finding]:
    """Check that each peer whose gateways have to accept calls has an address."""
    for peer in view.peers:
        spec, metadata = peer["spec"], peer["metadata"]
        if any(spec.get(field) for field in EVERY_CALLED) and not spec.get("addresses"):
            yield warn(
                f"GatewayPeer {metadata['namespace']}/{metadata['name']}",
                "its gateways are not exposed: they call, and cannot be called",
                "in that cluster, give gateway.service.type or gateway.addresses of the chart what leads to them",
            )
