"""Policy (ValidatingAdmissionPolicy) that warns the user of a deletion that the API server ignores.

Proxy pods have a grace period of 0. After a deletion without a grace period the API server ignores a shorter one. The
policy cannot warn of `kubectl delete --force`: API servers write the grace period of the pod's spec into a deletion
that names none before they ask policies and webhooks, so that both are the same request.
"""

from typing import Any

from agent.api import cel
from agent.api.names import SCHEDULER_PROXY
from agent.api.names.endings import ANNOTATION_GRACE_PERIOD

Raw = dict[str, Any]

DELETIONS = "multicluster-scheduler-proxy-pod-deletions"

_MESSAGE = (
    "'pod ' + request.name + ': it is being deleted without a grace period already, so the API server ignores this"
    " deletion, and its containers in the target end with their own grace period: to shorten it, run kubectl annotate"
    f" pod ' + request.name + ' --namespace ' + request.namespace + ' {ANNOTATION_GRACE_PERIOD}=1'"
)


def specs(agent: str) -> dict[str, tuple[Raw, Raw]]:
    """Return the policy by its name, with what its binding has beside that.

    :param agent: name of the agent's user, who deletes with a grace period of 0 what has ended
    """
    conditions = {
        "is-a-proxy-pod": "oldObject != null && has(oldObject.spec.schedulerName)"
        f" && oldObject.spec.schedulerName == '{SCHEDULER_PROXY}'",
        "is-not-the-agent": f"request.userInfo.username != '{agent}'",
        "has-a-grace-period": "has(request.options.gracePeriodSeconds)",
        "may-run": "has(oldObject.spec.nodeName) && !(has(oldObject.status.phase)"
        f" && oldObject.status.phase in {cel.texts('Succeeded', 'Failed')})",
    }
    spec = {
        "failurePolicy": "Ignore",
        "matchConstraints": {"resourceRules": [cel.rule("", ["DELETE"], ["pods"], version="v1")]},
        "matchConditions": [{"name": name, "expression": expression} for name, expression in conditions.items()],
        "validations": [
            {
                "expression": "!has(oldObject.metadata.deletionTimestamp)"
                " || oldObject.metadata.deletionGracePeriodSeconds != 0",
                "messageExpression": _MESSAGE,
            }
        ],
    }
    return {DELETIONS: (spec, {"validationActions": ["Warn"]})}
