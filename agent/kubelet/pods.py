"""Which delegate a request means, and whether this virtual node runs it at all."""

from collections.abc import Iterator

import msgspec

from agent.api import names
from agent.api.kinds import PODS
from agent.api.roles import ADMIRALTY_SOURCE_ROLE, SOURCE_ROLE
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.kube.errors import UNDECODABLE, Forbidden, KubeError, NotFound, Unauthorized, Unreachable
from agent.kube.store import Key, Object
from agent.kube.typed import Owner
from agent.kubelet.requests import Unacceptable


class Delegate(msgspec.Struct, frozen=True):
    """A pod in a target, as recorded in the local cluster: its identity is known, its existence is not."""

    target: Target
    namespace: str
    name: str
    chaperon_uid: str
    proxy: Object


class _Container(msgspec.Struct):
    name: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    ephemeral_containers: list[_Container] | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    owner_references: list[Owner] | None = None


class _Pod(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _Spec = msgspec.field(default_factory=_Spec)


read_pod = msgspec.json.Decoder(_Pod).decode


class Pods:
    """The proxy pods of this cluster by virtual node, and their delegates."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._proxies = deps.proxies.informer

    def on(self, node: str) -> list[Object]:
        """Proxy pods that are bound to a virtual node."""
        return self._deps.proxies.bound_to(node)

    def delegates(self, node: str) -> Iterator[Delegate]:
        """Return the delegates of all proxy pods of a virtual node."""
        target = self._deps.targets.by_node(node)
        if target is not None:
            for proxy in self.on(node):
                yield from self._placed(proxy, target)

    def target(self, node: str) -> Target:
        """Return the target behind a virtual node. Raises Unacceptable when it is not connected."""
        target = self._deps.targets.by_node(node)
        if target is None:
            raise Unacceptable(500, f"the target of node {node} is not connected: the conditions of its Target say why")
        return target

    async def find(self, node: str, pod: Key, uid: str) -> Delegate:
        """The delegate of a pod that this virtual node runs. Raises Unacceptable, or KubeError of this cluster."""
        proxy = self._proxies.store.get(pod)
        if proxy is None or proxy.node_name != node:
            # The agent's watch may be behind the client's.
            proxy = await self._read(pod)
        if proxy is None or proxy.node_name != node or (uid and proxy.uid != uid):
            raise Unacceptable(404, f'pod "{"/".join(pod)}" does not run on node {node}')
        if proxy.scheduler_name != names.SCHEDULER_PROXY:
            message = f"no container of pod {proxy.name} runs: node {node} stands for another cluster, where only"
            raise Unacceptable(400, f"{message} elected pods go")
        target = self.target(node)
        placed = list(self._placed(proxy, target))
        if len(placed) == 1:
            return placed[0]
        if placed:
            raise Unacceptable(500, f"pod {proxy.name} has more than one PodChaperon in target {target.title}")
        if not target.ready:
            raise Unacceptable(500, unreachable(target, target.record.message))
        raise Unacceptable(400, f"pod {proxy.name} has no delegate in target {target.title} (any more)")

    async def check(self, delegate: Delegate, container: str) -> None:
        """Check that the delegate exists, belongs to that chaperon, and has the container. Raises Unacceptable."""
        target, name = delegate.target, delegate.name
        try:
            pod = await _there(delegate)
        except KubeError as error:
            if isinstance(error, Unreachable):
                target.probe_now()
            raise Unacceptable(*refusal(target, delegate.namespace, error, "list", "pods")) from error
        except UNDECODABLE as error:
            message = f"what target {target.title} tells of the delegate {delegate.namespace}/{name} cannot be read"
            raise Unacceptable(500, f"{message}: {error}") from error
        if pod is None:
            message = f"the delegate {delegate.namespace}/{name} does not exist in target {target.title} yet"
            raise Unacceptable(400, message)
        owners = pod.metadata.owner_references or ()
        if not any(owner.controller and owner.uid == delegate.chaperon_uid for owner in owners):
            message = f"pod {delegate.namespace}/{name} in target {target.title} is not the delegate of this pod"
            raise Unacceptable(400, message)
        if container and container not in _containers(pod):
            message = f'container "{container}" not found in pod {delegate.proxy.name} (it has: {_listed(pod)})'
            raise Unacceptable(400, message)

    def _placed(self, proxy: Object, target: Target) -> Iterator[Delegate]:
        for placed in self._deps.chaperons.of(proxy.key):
            chaperon = placed.chaperon
            if placed.target is target and placed.is_of(proxy):
                yield Delegate(target, chaperon.namespace, chaperon.name, chaperon.uid, proxy)

    async def _read(self, pod: Key) -> Object | None:
        try:
            return Object(PODS, await self._deps.local.client.get_raw(PODS, pod[1], pod[0]))
        except NotFound:
            return None


async def _there(delegate: Delegate) -> _Pod | None:
    """Return the target's delegate; None if it does not exist. Admiralty lets sources list pods, but not get them."""
    port = delegate.target.port
    try:
        return read_pod(await port.get_raw(PODS, delegate.name, delegate.namespace))
    except NotFound:
        return None
    except Forbidden:
        labels = f"{names.LABEL_PARENT_UID}={delegate.proxy.uid}"
        _, items = await port.list_raw(PODS, delegate.namespace, labels=labels)
        pods = (read_pod(item) for item in items)
        return next((pod for pod in pods if pod.metadata.name == delegate.name), None)


def refusal(target: Target, namespace: str, error: KubeError, verb: str, resource: str) -> tuple[int, str]:
    """Return status and message for an error of the target that API servers pass on to the client.

    API servers pass on only the number of 404 and 503, so the message would be lost.
    """
    where = f"in namespace {namespace}" if namespace else "in all namespaces"
    match error:
        case Forbidden():
            return 403, (
                f'this cluster may not "{verb}" {resource} {where} of target {target.title}:'
                f" grant it there ({_role(target)}) ({error})"
            )
        case Unauthorized():
            return 500, f"target {target.title} refuses the credentials: renew the kubeconfig Secret ({error})"
        case Unreachable():
            return 500, unreachable(target, str(error))
        case _:
            pass
    status = getattr(error, "status", 500)
    return (400 if 400 <= status < 500 else 500), f"target {target.title}: {error}"


def _role(target: Target) -> str:
    """Return the role of sources in a target: Admiralty's agents publish no version."""
    summary = target.summaries.store.get(("", names.SUMMARY_NAME))
    if summary is None or names.ANNOTATION_AGENT_VERSION in summary.annotations:
        return f"ClusterRole {SOURCE_ROLE}"
    return f"ClusterRole {ADMIRALTY_SOURCE_ROLE}, or what Admiralty's release there calls it"


def unreachable(target: Target, why: str) -> str:
    """Return the message for a target that does not answer."""
    return f"target {target.title} does not answer: {why}"


def _containers(pod: _Pod) -> list[str]:
    spec = pod.spec
    groups = (spec.init_containers, spec.containers, spec.ephemeral_containers)
    return [container.name for group in groups for container in group or ()]


def _listed(pod: _Pod) -> str:
    return ", ".join(_containers(pod))
