"""What to say of a pod that is no proxy pod. Pure."""

from agent.api import names
from agent.kube.store import Object
from agent.model.daemonpod import REASON, message
from agent.model.namespaces import command, is_enabled
from agent.model.proxypod import is_delegate, is_elected, is_of_a_daemon_set


def remedy(pod: Object, namespace: Object | None) -> str:
    """What the pod is, and what to do, empty for a proxy pod."""
    if pod.scheduler_name == names.SCHEDULER_PROXY:
        return ""
    what = f"pod {pod.namespace}/{pod.name}"
    if is_delegate(pod.decode()):
        source = pod.labels.get(names.LABEL_PARENT_CLUSTER_NAME, "")
        where = f"in cluster {source}" if source else "in its source cluster"
        return (
            f"{what} is a delegate, made by PodChaperon {pod.controller.name if pod.controller else ''}:"
            f" explain the proxy pod that it stands for, {where}"
        )
    if is_of_a_daemon_set(pod.decode()) and _reason(pod) == REASON:
        return f"{what} is a DaemonSet's: {message(pod.node_name)}"
    enabled = namespace is not None and is_enabled(namespace.labels)
    label = command(pod.namespace)
    if is_elected(pod.decode()):
        why = "there was no webhook" if enabled else "its namespace was not enabled"
        first = "see that the webhook runs" if enabled else f"run `{label}`"
        return f"{what} asks to be elected, but {why} when it was created: {first}, then create the pod again"
    steps = [] if enabled else [f"run `{label}`"]
    steps.append(f"annotate it {names.PREFIX}{names.ELECT}, and create it again")
    return f"{what} was not elected, so it runs in this cluster (scheduler {pod.scheduler_name}); {', '.join(steps)}"


def _reason(pod: Object) -> str:
    return str((pod.decode().get("status") or {}).get("reason") or "")
