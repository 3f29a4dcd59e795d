"""Join clusters: the first one becomes the source, the others its targets."""

from agent.api.kinds import NAMESPACES, SECRETS, SERVICE_ACCOUNTS, SOURCES, TARGETS
from agent.kube.client import Client
from agent.sandbox import kubeconfig, manifests
from agent.sandbox.objects import apply, token
from agent.sandbox.plan import ClusterPlan


async def join_target(
    source: Client, source_plan: ClusterPlan, target: Client, target_plan: ClusterPlan, authority: bytes
) -> None:
    """Let the source run pods of its joined namespace in the target.

    The target's agent binds the roles once it sees the Source. `authority` is the target's CA certificate (PEM).
    """
    await apply(target, SOURCES, manifests.source(source_plan.name))
    await apply(target, SERVICE_ACCOUNTS, manifests.service_account(source_plan.name))
    credentials = await token(target, manifests.NAMESPACE, source_plan.name)
    config = kubeconfig.render(target_plan.name, target_plan.server, authority, token=credentials)
    await apply(source, SECRETS, manifests.secret(target_plan.name, config))
    await apply(source, TARGETS, manifests.target(target_plan.name))


async def join_source(source: Client, plan: ClusterPlan, *, self_target: bool) -> None:
    """Let pods of the source's joined namespace be elected; with `self_target` they may run at home, too."""
    await apply(source, NAMESPACES, manifests.enabled_namespace())
    if self_target:
        await apply(source, TARGETS, manifests.self_target(plan.name))
