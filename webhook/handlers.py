"""The paths API servers call: body in, answer out, counted and timed."""

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import web
from prometheus_client import Counter, Histogram

from agent.api import names
from agent.api.kinds import (
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    NAMESPACES,
    PLACEMENTS,
    SCHEDULING_MANIFESTS,
)
from agent.base.metrics import LATENCY_BUCKETS, REGISTRY
from agent.base.offloop import off_loop
from agent.model.diff import json_patch
from agent.model.proxypod import InvalidPod, is_proxy
from agent.runtime.bodies import Bodies
from webhook import applications, placements, pods, review, target_choices, workloads
from webhook.configurations import (
    PATH,
    PATH_BY_DEFAULT,
    PATH_CHANGED,
    PATH_STAYING,
    PATH_V010,
    PATH_VALIDATE,
    PATH_WORKLOADS,
    PATH_WORKLOADS_BY_DEFAULT,
)
from webhook.placement_entries import ENTRIES
from webhook.placements import SetGuard
from webhook.pods import LONG
from webhook.reapplied import restored
from webhook.review import Answer, Malformed, Outcome, Request, allowed, patched, refused
from webhook.target_choices import ENTRY
from webhook.targets import Targets
from webhook.validator import Validator
from webhook.works import WorkGuard

_REQUESTS = Counter(
    "flotilla_webhook_requests_total", "Admission requests by outcome.", ("outcome",), registry=REGISTRY
)
_SECONDS = Histogram(
    "flotilla_webhook_seconds", "Duration of admission requests in seconds.", buckets=LATENCY_BUCKETS, registry=REGISTRY
)
_OUTCOMES = {outcome: _REQUESTS.labels(outcome.value) for outcome in Outcome}

_log = logging.getLogger(__name__)


class NotReady(Exception):
    """Raised until all targets have been listed."""


class Handlers:
    """Handlers of all paths."""

    def __init__(self, targets: Targets, validator: Validator, agent: str) -> None:
        self._targets = targets
        self._validator = validator
        self._agent = agent

    async def elected(self, request: Request) -> Answer:
        """Answer for a pod that may ask for election."""
        return await self._pod(request, by_default=False)

    async def by_default(self, request: Request) -> Answer:
        """Answer for a pod in a namespace that elects pods by default."""
        return await self._pod(request, by_default=True)

    async def changed(self, request: Request) -> Answer:
        """Answer an update of a proxy pod's scheduling constraints or similar fields."""
        if not takes_long(request):
            return answer_to_change(request)
        return await off_loop(_tenant(request), answer_to_change, request)

    async def staying(self, request: Request) -> Answer:
        """Answer for a pod that is not elected and has topology spread constraints."""
        return pods.staying(request)

    async def workload(self, request: Request) -> Answer:
        """Answer for a workload whose pods may ask for election."""
        return await self._workload(request, by_default=False)

    async def workload_by_default(self, request: Request) -> Answer:
        """Answer for a workload in a namespace that elects pods by default."""
        return await self._workload(request, by_default=True)

    async def namespace(self, request: Request) -> Answer:
        """Answer for a namespace with annotations about targets."""
        return target_choices.of_namespace(request, self._targets)

    async def application(self, request: Request) -> Answer:
        """Answer for an application, which may have hundreds of manifests."""
        return await off_loop(_tenant(request), applications.of_application, request)

    async def validated(self, request: Request) -> Answer:
        """Answer for a Target, ClusterTarget, Source or ClusterSource."""
        return await self._validator.answer(request)

    async def _workload(self, request: Request, *, by_default: bool) -> Answer:
        made = workloads.first_pod(request)
        of_pods = await self._pod(made, by_default=by_default)
        of_itself = target_choices.of_workload(request, self._targets)
        if of_pods.outcome is not Outcome.UNTOUCHED:
            # Checked once for the workload, and not for each of its pods.
            of_itself += await self._validator.about_placement(made["object"], made["object"]["metadata"]["namespace"])
        return workloads.told(request, of_pods, of_itself)

    async def _pod(self, request: Request, *, by_default: bool) -> Answer:
        if not self._targets.synced:
            raise NotReady
        if not pods.takes_long(request):
            return pods.answer(request, self._targets, by_default=by_default, agent=self._agent)
        noted = pods.Noted.of(request, self._targets)
        tenant = _tenant(request)
        return await off_loop(tenant, pods.answer, request, noted, by_default=by_default, agent=self._agent)


def application(
    targets: Targets, validator: Validator, guard: SetGuard, works: WorkGuard, body_limit: int, agent: str = ""
) -> web.Application:
    """The endpoint; `body_limit` is in bytes, `agent` the agent's user, empty if it is not known."""
    handlers = Handlers(targets, validator, agent)
    app = web.Application(client_max_size=body_limit)
    bodies = Bodies("webhook")
    for path, answer in (
        (PATH, handlers.elected),
        (PATH_V010, handlers.elected),
        (PATH_BY_DEFAULT, handlers.by_default),
        (PATH_CHANGED, handlers.changed),
        (PATH_STAYING, handlers.staying),
        (PATH_VALIDATE, handlers.validated),
        (ENTRY.path, handlers.namespace),
        (PATH_WORKLOADS, handlers.workload),
        (PATH_WORKLOADS_BY_DEFAULT, handlers.workload_by_default),
    ):
        app.router.add_post(path, _served(answer, bodies))
    judges = {
        MANAGED_CLUSTER_SET_BINDINGS: guard.of_binding,
        MANAGED_CLUSTERS: guard.of_cluster,
        PLACEMENTS: _at_once(placements.of_placement),
        NAMESPACES: _at_once(placements.of_namespace),
        MANIFEST_WORKS: works.of_work,
        SCHEDULING_MANIFESTS: handlers.application,
    }
    for entry in ENTRIES:
        app.router.add_post(entry.path, _served(judges[entry.kind], bodies))
    return app


def _tenant(request: Request) -> str:
    """Return the namespace whose long requests are answered one after the other."""
    return str(request.get("namespace") or "")


def _at_once(answer: Callable[[Request], Answer]) -> Callable[[Request], Awaitable[Answer]]:
    async def answered(request: Request) -> Answer:
        return answer(request)

    return answered


def _served(
    answer: Callable[[Request], Awaitable[Answer]], bodies: Bodies
) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Answer an AdmissionReview: 400 if malformed, 503 before the targets are listed, else as `Bodies` refuses."""

    async def serve(request: web.Request) -> web.Response:
        started = time.perf_counter()
        outcome = Outcome.FAILED
        try:
            async with bodies.read(request) as body:
                answered = await answer(review.read(body))
            outcome = answered.outcome
            if outcome is Outcome.REFUSED:
                _log.info("refused: %s", answered.explanation)
            return web.Response(body=msgspec.json.encode(answered.review), content_type="application/json")
        except Malformed as error:
            outcome = Outcome.MALFORMED
            return web.Response(status=400, text=f"{error}\n")
        except NotReady:
            outcome = Outcome.NOT_READY
            return web.Response(status=503, text="the targets are not known yet: try again\n")
        except (web.HTTPRequestEntityTooLarge, web.HTTPRequestTimeout):
            outcome = Outcome.MALFORMED
            raise
        finally:
            _OUTCOMES[outcome].inc()
            _SECONDS.observe(time.perf_counter() - started)

    return serve


def takes_long(request: Request) -> bool:
    """Return whether an answer may take more than a few milliseconds: the stored manifest may have long YAML."""
    pod = request.get("oldObject")
    metadata = pod.get("metadata") if isinstance(pod, dict) else None
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return len((annotations or {}).get(names.ANNOTATION_MANIFEST) or "") > LONG


def answer_to_change(request: Request) -> Answer:
    """Restore the webhook's fields of a proxy pod whose user applies its manifest again.

    Refuses the pod if its target annotations are invalid and were valid before.

    A pod with an unreadable stored manifest is not changed.

    :raises Malformed: if the objects are not pods
    """
    if request.get("operation") != "UPDATE" or request.get("subResource"):
        return allowed(request, Outcome.UNTOUCHED)
    old, new = _pod(request, "oldObject"), _pod(request, "object")
    if not is_proxy(old):
        return allowed(request, Outcome.UNTOUCHED)
    if faults := target_choices.new_faults(old, new):
        return refused(request, faults)
    try:
        after = restored(old, new)
    except (InvalidPod, RecursionError):
        return allowed(request, Outcome.UNTOUCHED)
    patch = json_patch(new, after)
    return patched(request, patch) if patch else allowed(request, Outcome.UNTOUCHED)


def _pod(request: Request, field: str) -> dict[str, Any]:
    pod = request.get(field)
    if isinstance(pod, dict) and pod.get("kind") == "Pod" and isinstance(pod.get("spec"), dict):
        return pod
    raise Malformed(f"request.{field} is not a pod: the webhook's rules may name pods of the core group only")
