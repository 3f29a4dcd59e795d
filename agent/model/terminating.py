"""Readiness of a delegate that terminates while its proxy pod does not. Pure.

Kubernetes' endpoints controller removes a terminating pod from Services. The proxy pod of a run-to-completion
delegate is not deleted with it, since the delegate may still succeed. Ready False removes such a proxy pod from
Services instead.
"""

from collections.abc import Mapping
from typing import Any

from agent.api.conditions import is_true, timestamp
from agent.model import deletion

Raw = dict[str, Any]

REASON = "DelegateTerminating"
MESSAGE = "the delegate is being deleted in the target: no Service sends traffic to this pod"


def not_ready(status: Mapping[str, Any], deleted: Mapping[str, Any]) -> Raw:
    """Return the status of a delegate with Ready False if it is True; everything else is unchanged.

    :param deleted: the delegate, or its chaperon, whichever is being deleted
    """
    if not is_true(status.get("conditions"), "Ready"):
        return dict(status)
    began = deletion.began(deleted)
    since = {"lastTransitionTime": timestamp(began)} if began is not None else {}
    told = {"status": "False", "reason": REASON, "message": MESSAGE, **since}
    conditions = [{**each, **told} if each["type"] == "Ready" else each for each in status["conditions"]]
    return {**status, "conditions": conditions}
