"""Making a delegate: with all that its chaperon says, or without a PriorityClass that this cluster does not have."""

from typing import Any

from agent.api.kinds import PODS
from agent.controllers.chaperon.once import Once
from agent.kube.client import Client
from agent.kube.errors import Forbidden
from agent.model import priorityclass
from agent.model.delegatepod import delegate

Raw = dict[str, Any]


async def made(client: Client, once: Once | None, chaperon: Raw) -> tuple[bytes, str]:
    """The pod that was created, and the class without which it was, mostly none. Raises KubeError.

    :param once: where it is recorded before; None for a pod that may be made again
    """
    pod, recorded = delegate(chaperon), once is None
    try:
        if once is not None:
            await once.record(chaperon, pod)
            recorded = True
        return await client.create_raw(PODS, pod), ""
    except Forbidden as error:
        lacks = priorityclass.lacking(chaperon, error.message)
        if not lacks:
            raise
    pod = priorityclass.without(pod)
    if once is not None and not recorded:
        await once.record(chaperon, pod)
    return await client.create_raw(PODS, pod), lacks
