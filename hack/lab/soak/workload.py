"""Users of the source, which create, change and delete workloads as planned, and retry until the API server accepts."""

import asyncio
from collections.abc import Awaitable, Callable

from agent.kube.client import Client
from agent.kube.errors import AlreadyExists, BadRequest, Invalid, KubeError, NotFound
from hack.lab.sandbox.manifests import NAMESPACE
from hack.lab.soak.manifests import KINDS, ROLLED, VOLUMES, objects, storage_class, volume
from hack.lab.soak.manifests import STORAGE_CLASSES as CLASSES
from hack.lab.soak.plan import Plan, Step, claims, wanted

_PAUSE_SECONDS = 0.5
Note = Callable[[str], None]


async def prepare(target: Client, plan: Plan) -> None:
    """Create the storage class in a target, and a volume for each claim of the plan."""
    await target.create(CLASSES, storage_class())
    for number in range(claims(plan.steps)):
        await target.create(VOLUMES, volume(number))


class Users:
    """Users that execute the steps of each workload in order, however long the API server takes."""

    def __init__(self, source: Client, note: Note) -> None:
        self._source = source
        self._note = note
        self._created: dict[str, Step] = {}

    async def run(self, plan: Plan, began: float) -> None:
        """Execute every step of a plan at its time after `began` (of the event loop). Return when all are done."""
        last: dict[str, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            for step in plan.steps:
                await asyncio.sleep(began + step.at - asyncio.get_running_loop().time())
                self._note(f"{step.verb} {step.sort} {step.name} ({step.pods} pods)")
                last[step.name] = group.create_task(self._after(last.get(step.name), step))

    async def wipe(self, plan: Plan) -> None:
        """Delete the workloads that exist at the end of the plan."""
        left = wanted(plan.steps)
        await asyncio.gather(*(self._delete(self._created[name]) for name in left))

    async def _after(self, before: asyncio.Task[None] | None, step: Step) -> None:
        if before is not None:
            await before
        match step.verb:
            case "create":
                self._created[step.name] = step
                for kind, obj in objects(step):
                    create = _call(self._source.create, kind, obj)
                    await insist(create, AlreadyExists)
            case "scale":
                await self._patch(step, {"spec": {"replicas": step.pods}})
            case "roll":
                metadata = {"annotations": {ROLLED: f"{step.at:g}"}}
                await self._patch(step, {"spec": {"template": {"metadata": metadata}}})
            case "delete":
                await self._delete(self._created[step.name])

    async def _patch(self, step: Step, body: dict[str, object]) -> None:
        await insist(lambda: self._source.patch(KINDS[step.sort], step.name, body, NAMESPACE), None)

    async def _delete(self, step: Step) -> None:
        for kind, obj in reversed(objects(step)):
            name = obj["metadata"]["name"]
            delete = _call(self._source.delete, kind, name, NAMESPACE, propagation="Background")
            await insist(delete, NotFound)


def _call(
    verb: Callable[..., Awaitable[object]], *arguments: object, **more: object
) -> Callable[[], Awaitable[object]]:
    return lambda: verb(*arguments, **more)


async def insist(ask: Callable[[], Awaitable[object]], done: type[KubeError] | None) -> None:
    """Retry until the API server accepts. The error `done` means that an earlier try succeeded.

    Raises Invalid or BadRequest.
    """
    while True:
        try:
            await ask()
            return
        except KubeError as error:
            if done is not None and isinstance(error, done):
                return
            if isinstance(error, (Invalid, BadRequest)):
                raise
        await asyncio.sleep(_PAUSE_SECONDS)
