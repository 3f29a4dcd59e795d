"""Links that drop all traffic from the moment of a certain request."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Literal, NamedTuple

from agent.api import names
from agent.api.kinds import TARGETS
from hack.lab.sandbox import faults
from hack.lab.sandbox.blackhole import Lost
from tests.e2e import manifests
from tests.e2e.faults.agents import agent_by, proxy_of
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import DEPLOYMENTS
from tests.e2e.reservations import empty, is_allow, is_candidate_post, is_delete, strike

SILENT_SECONDS = 8.0
"""Longer than a leader leads without renewing, and than a target is Ready without answers."""


class Step(NamedTuple):
    """A write of the source's agent, and the cluster of the API server that receives it."""

    what: str
    of: Literal["cd", "us"]
    is_it: faults.Drop


def _is(verb: str, part: str, *words: str) -> faults.Drop:
    def is_it(method: str, path: str, body: bytes) -> bool:
        return method == verb and part in f"{path}/" and all(word.encode() in body for word in words)

    return is_it


_claims = _is("PATCH", "/pods/", names.ANNOTATION_CLAIM)
_changes_finalizers = _is("PATCH", "/pods/", '"finalizers"')
STEPS = (
    Step("claim", "cd", _claims),
    Step("PodChaperon", "us", is_candidate_post),
    Step("binding", "cd", _is("POST", "/binding/")),
    Step("status home", "cd", _is("PATCH", "/status/", "Running")),
    Step("deletion of the PodChaperon", "us", is_delete),
    Step("release of the pod", "cd", lambda *request: _changes_finalizers(*request) and not _claims(*request)),
)
RESERVING = (Step("candidate", "us", is_candidate_post), Step("leave", "us", is_allow))
LOSING = Step("deletion of a candidate", "us", is_delete)
_BEFORE_RUNNING = (*RESERVING, LOSING)
"""Steps before a pod runs. None occurs if all pods go to the other target, which is possible on a busy machine."""


class Hole:
    """Decides for a proxy when to drop all traffic; `struck` is set from then on."""

    def __init__(self) -> None:
        self.struck = asyncio.Event()
        self.proxy: faults.LossyProxy | None = None
        self._chosen: Callable[[str, str, bytes], bool] = lambda method, path, body: False
        self._lost: Lost = "requests"

    def arm(self, namespace: str, step: Step, lost: Lost) -> None:
        """Drop traffic from this step in a namespace on: requests and answers, or only answers."""
        place = f"/namespaces/{namespace}/"
        self._chosen = lambda method, path, body: place in path and step.is_it(method, path, body)
        self._lost = lost
        self.struck.clear()

    def __call__(self, method: str, path: str, body: bytes) -> bool:
        """Start dropping at the chosen request. Return False: the proxy must not close the connection."""
        if not self.struck.is_set() and self._chosen(method, path, body):
            assert self.proxy is not None
            self.struck.set()
            self.proxy.answers.clear()
            if self._lost == "requests":
                self.proxy.hears.clear()
        return False

    async def mend(self) -> None:
        """Wait until traffic is dropped, and restore it after `SILENT_SECONDS`."""
        await self.struck.wait()
        await asyncio.sleep(SILENT_SECONDS)
        assert self.proxy is not None
        self.proxy.mend()


@contextlib.asynccontextmanager
async def hole(fleet: Fleet, cluster: str) -> AsyncIterator[Hole]:
    """Run a proxy for a cluster's API server that can start to drop all traffic."""
    made = Hole()
    async with proxy_of(fleet, cluster, made) as made.proxy:
        yield made


@contextlib.asynccontextmanager
async def both(fleet: Fleet) -> AsyncIterator[Mapping[str, Hole]]:
    """Run black holes between the source's agent and its own API server, and the API server of us."""
    async with contextlib.AsyncExitStack() as stack:
        found = {cluster: await stack.enter_async_context(hole(fleet, cluster)) for cluster in ("cd", "us")}
        assert found["cd"].proxy is not None
        await stack.enter_async_context(agent_by(fleet, "cd", found["cd"].proxy))
        yield found


@contextlib.asynccontextmanager
async def by(fleet: Fleet, proxy: faults.LossyProxy, weight: int = 100) -> AsyncIterator[str]:
    """Provide a namespace with the targets us, through a proxy, and eu. By default pods prefer us."""
    async with fleet.namespace(targets=()) as namespace:
        await fleet.join(namespace, "eu")
        await fleet.join(namespace, "us", server=proxy.url, authority=proxy.authority, weight=weight)
        try:
            yield namespace
        finally:
            proxy.delay = 0.0
            proxy.mend()
            # Deleting a Target needs access to the target, and the agent reaches this one only through the proxy.
            await fleet.source.delete(TARGETS, "us", namespace)
            await fleet.gone(TARGETS, "us", namespace)


async def swallowed(
    fleet: Fleet, holes: Mapping[str, Hole], step: Step, lost: Lost, count: int, weight: int = 100
) -> None:
    """Create and delete pods while a link drops traffic from a step on; check that each pod runs once."""
    us, struck = holes["us"].proxy, holes[step.of]
    assert us is not None
    async with by(fleet, us, weight) as namespace:
        struck.arm(namespace, step, lost)
        mending = asyncio.ensure_future(struck.mend())
        try:
            await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", count), namespace)
            if step in _BEFORE_RUNNING:
                count = await strike(fleet, struck.struck, namespace, count)
            before = {pod["metadata"]["uid"] for pod in await fleet.running(namespace, "web", count)}
            await fleet.agree(namespace)
            await fleet.source.delete(DEPLOYMENTS, "web", namespace, propagation="Background")
            await empty(fleet, namespace)
            assert struck.struck.is_set(), "the test has seen no such write"
            await mending
        finally:
            mending.cancel()
            await asyncio.gather(mending, return_exceptions=True)
        born = fleet.census.of(namespace, fleet.census.born.values())
        assert {each.parent_uid for each in born} == before, "a pod was made anew"
        fleet.census.check(namespace, at_most=count, may_end=True)
