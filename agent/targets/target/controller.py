"""Target: keep a connection to the cluster of every Target and ClusterTarget.

Watches  Targets, ClusterTargets, each referenced Secret by its name, the state of connected targets; proxy pods and
         chaperons while a Target is being removed.
Writes   the Target's conditions Reachable, Authorized, AgentReady, Ready (and Responsive, AcceptsPods, QuotasReadable,
         ObjectsReadable, Secure, Drained), its finalizer, one Warning event when it becomes unusable; the proxy pods of
         a Target that is being removed; `status.clusterUID`, the cluster that it is connected to.
A Target gets its finalizer when it is ready for the first time: before that, its cluster has no objects of this source,
and the Target may be deleted at once. No target affects another one. If a changed kubeconfig points to another cluster,
the target is not used until a user has accepted that cluster.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable

from agent.api import names
from agent.api.conditions import find_condition, set_condition
from agent.api.kinds import PODS, SECRETS, TARGET_KINDS
from agent.api.names import lifecycle
from agent.base.clock import parse
from agent.clusters.deps import Deps
from agent.clusters.target import State
from agent.kube.errors import Conflict, NotFound
from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from agent.model import podranges, podstate
from agent.model.diff import same
from agent.model.target_health import is_set
from agent.runtime.controller import Controller
from agent.targets.target import decide, gather
from agent.targets.target.gather import Problem, Raw, Reference
from agent.targets.target.recorded import Recorded
from agent.targets.target.remains import ADOPTION_SECONDS, LOOK_SECONDS, Remains, is_adopting

REWORD_SECONDS = 30.0
"""Seconds between two writes of conditions that differ in messages alone, such as alternating network errors."""
_UNSYNCED_SECONDS = 0.1
_UNREADABLE_SECONDS = 2.0


class TargetController(Controller[Key]):
    """Keys are those of Targets; ClusterTargets have an empty namespace."""

    name = "target"

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._client = deps.local.client
        self._objects = deps.local.either(TARGET_KINDS)
        self._pods = deps.proxies.informer
        self._references: dict[Key, Key] = {}
        self._secrets: dict[Key, tuple[Informer, Callable[[], None]]] = {}
        self._fingerprints: dict[Key, str] = {}
        self._recorded = Recorded()
        self._written_at: dict[Key, float] = {}
        self._leaving: dict[Key, tuple[str, str]] = {}
        self._leaving_since: dict[Key, float] = {}
        self._remains = Remains(deps)
        for informer in self._objects.informers:
            self.watch(informer, lambda target: [target.key])
        self.watch(self._pods, self._left_by)
        deps.targets.on_change(lambda target: self.queue.add(target.key))
        deps.targets.on_latency(lambda target: self.queue.add(target.key))
        deps.chaperons.subscribe(self._chaperon_changed)
        deps.prerequisites.on_change(lambda target: self.queue.add(target.key))
        deps.inflight_chaperons.subscribe(
            lambda target, pod: self.queue.add(target) if target in self._leaving else None
        )

    async def reconcile(self, key: Key) -> float | None:
        """Connect or disconnect one target, and write its conditions; drain it if it is being deleted."""
        obj = self._objects.get(key)
        if obj is None:
            await self._forget(key)
            return None
        self._deps.inflight_chaperons.close(key, closed=obj.deleting)
        target = obj.decode()
        place = gather.reference(target)
        self._follow(key, place)
        informer = self._secrets[place.secret][0] if place else None
        if informer is not None and not informer.synced.is_set() and informer.error is None:
            return _UNSYNCED_SECONDS
        problem = await self._connect(key, target, informer)
        again = await self._drain(obj, problem) if obj.deleting else await self._report(obj, target, problem)
        if informer is not None and not informer.synced.is_set():
            return _UNREADABLE_SECONDS
        return again

    async def _forget(self, key: Key) -> None:
        self._follow(key, None)
        self._fingerprints.pop(key, None)
        self._recorded.forget(key)
        self._written_at.pop(key, None)
        self._leaving.pop(key, None)
        self._leaving_since.pop(key, None)
        self._deps.inflight_chaperons.forget(key)
        await self._deps.targets.disconnect(key)

    def _follow(self, key: Key, place: Reference | None) -> None:
        """Watch the Secret that a Target refers to, and no longer one that no Target refers to."""
        old = self._references.pop(key, None)
        if place is not None:
            self._references[key] = place.secret
            if place.secret not in self._secrets:
                namespace, name = place.secret
                informer = self._deps.local.informer(SECRETS, namespace, fields=f"metadata.name={name}")
                stop = self.watch(informer, self._users, required=False)
                self._secrets[place.secret] = (informer, stop)
        if old is not None and old not in self._references.values():
            informer, stop = self._secrets.pop(old)
            stop()
            self._deps.local.informers.drop(informer)

    def _users(self, secret: Object) -> Iterable[Key]:
        return [key for key, reference in self._references.items() if reference == secret.key]

    async def _connect(self, key: Key, target: Raw, informer: Informer | None) -> Problem | None:
        """Make the connection that the Target specifies. Return the problem that prevents it; None if none does."""
        place, ranges = gather.reference(target), podranges.published(target)
        expected = self._recorded.expected(key, target)
        connected = self._deps.targets.get(key)
        if connected is not None:
            connected.keep_to(ranges)
            if connected.identity.expect(expected):
                connected.probe_now()
        try:
            gather.check(target)
            if place is None:
                await self._deps.targets.connect(key, None, gather.fingerprint(None, b""), ranges)
                return None
            if informer is not None and not informer.synced.is_set():
                raise Problem("SecretUnreadable", f"{place} cannot be read: {informer.error}")
            data = gather.kubeconfig(place, informer.store.get(place.secret) if informer else None)
            fingerprint = gather.fingerprint(place, data)
            outdated = connected is None or connected.identity.outdated
            if outdated or self._fingerprints.get(key) != fingerprint:
                # Parsing a long kubeconfig would block the event loop.
                plugins = self._deps.settings.target_plugins
                connection = await asyncio.to_thread(gather.connection, place, data, plugins=plugins)
                identity = await asyncio.to_thread(gather.identity, place, data)
                self._fingerprints[key] = fingerprint
                await self._deps.targets.connect(key, connection, identity, ranges, expected)
        except Problem as problem:
            self._fingerprints.pop(key, None)
            await self._deps.targets.disconnect(key)
            return problem
        return None

    async def _report(self, obj: Object, target: Raw, problem: Problem | None) -> float | None:
        """Update the conditions and the finalizer."""
        key = obj.key
        now = self._deps.clock.now()
        old = target.get("status", {}).get("conditions")
        connected = self._deps.targets.get(key)
        if problem is not None or connected is None:
            state = decide.unconnected(problem.reason, problem.message) if problem else None
        elif (wait := decide.settles_in(connected.record, now)) > 0:
            return wait
        elif connected.ready and names.FINALIZER_DRAIN not in obj.finalizers:
            await self._hold(obj)
            return None
        else:
            state = gather.health_of(connected)
        if state is None:
            return None
        new = decide.conditions(old, state, target["metadata"].get("generation"), now)
        cluster = self._recorded.note(key, target, connected)
        if same(old, new) and not cluster:
            return None
        if decide.only_words_differ(old, new) and not cluster and (wait := self._rewording_wait(key)) > 0:
            return wait
        await self._write(obj, {"conditions": new, **cluster})
        if decide.became_worse(old, new):
            ready = find_condition(new, "Ready") or {}
            self._deps.recorder.event(target, "Warning", ready["reason"], ready["message"])
        return None

    async def _hold(self, obj: Object) -> None:
        """Add the finalizer. The event of this write enqueues the Target again, which then writes the conditions."""
        finalizers = [*obj.finalizers, names.FINALIZER_DRAIN]
        await self._deps.target_status.patch_metadata(obj, {"finalizers": finalizers})

    def _rewording_wait(self, key: Key) -> float:
        """Return the seconds until conditions that differ in messages alone may be written; 0 or less: now."""
        return self._written_at.get(key, -REWORD_SECONDS) + REWORD_SECONDS - time.monotonic()

    async def _write(self, obj: Object, status: Raw) -> None:
        await self._deps.target_status.write(obj, status)
        self._written_at[obj.key] = time.monotonic()
        self._recorded.written(obj.key, status)

    async def _drain(self, obj: Object, problem: Problem | None) -> float | None:
        """Take the next step of draining a Target."""
        if names.FINALIZER_DRAIN not in obj.finalizers:
            return None
        key = obj.key
        connected = self._deps.targets.get(key)
        if key not in self._leaving and connected is not None:
            # Probe at once: the decision about its pods depends on whether it still answers.
            connected.probe_now()
        self._leaving[key] = (names.finalizer(*key), names.virtual_node(*key))
        view = await self._view(obj, problem)
        bound = self._deps.proxies.bound_to(names.virtual_node(*key))
        since = self._leaving_since.setdefault(key, time.monotonic())
        waits = not view.forced and time.monotonic() - since < ADOPTION_SECONDS
        if waits and is_adopting(key, connected, self._deps.chaperons, bound):
            return LOOK_SECONDS
        step = decide.drain(view)
        for action in step.actions:
            await self._apply(action)
        if step.drained:
            rest = [finalizer for finalizer in obj.finalizers if finalizer != names.FINALIZER_DRAIN]
            body = {"metadata": {"resourceVersion": obj.version, "finalizers": rest or None}}
            with contextlib.suppress(NotFound):
                await self._client.patch_raw(obj.kind, obj.name, body, obj.namespace)
            return None
        target = obj.decode()
        old = target.get("status", {}).get("conditions")
        new = set_condition(old, "Drained", "False", step.reason, step.message, self._deps.clock.now())
        again = self._deps.settings.release_after
        if same(old, new):
            return again
        reworded = decide.only_words_differ(old, new)
        if reworded and (wait := self._rewording_wait(key)) > 0:
            return min(wait, again)
        await self._write(obj, {"conditions": new})
        if not reworded:
            self._deps.recorder.event(target, "Warning", step.reason, step.message)
        return again

    async def _view(self, obj: Object, problem: Problem | None) -> decide.Leaving:
        finalizer, node = self._leaving[obj.key]
        connected = self._deps.targets.get(obj.key)
        ready = connected is not None and connected.ready
        # A new leader first has to find out whether the target answers.
        settled = connected is None or connected.record.state is not State.CONNECTING
        declared = is_set(obj.annotations, lifecycle.LOST) and settled and not ready
        forced = declared or is_set(obj.annotations, names.FORCE_REMOVE)
        asked = connected if ready and not forced else None
        parents = set(self._deps.chaperons.parents(connected)) if connected else set()
        held = self._deps.proxies.held_for(finalizer) + self._deps.proxies.bound_to(node)
        pods = {pod.key: pod for pod in held}
        unclaimed = connected is not None and self._remains.unclaimed(connected, pods)
        sent = [pod for pod in held if podstate.claimed_node(pod) == node and pod.key not in parents]
        doubtful = await self._remains.doubtful(asked, sent) if asked is not None else frozenset()
        left = bool(parents & pods.keys()) or unclaimed
        left = left or (connected is not None and self._deps.prerequisites.left_in(connected))
        unsure = unclaimed or self._deps.inflight_chaperons.any_to(obj.key)
        if asked is not None and not pods and not left:
            unsure = await self._remains.any_in(asked)
        deleted_at = parse(obj.head.metadata.deletion_timestamp or "")
        return decide.Leaving(
            finalizer=finalizer,
            forced=forced,
            ready=ready,
            age=(self._deps.clock.now() - deleted_at).total_seconds(),
            release_after=self._deps.settings.release_after,
            pods=tuple(self._remains.pod(pod, obj.key, node, doubtful) for pod in pods.values()),
            chaperons=left,
            unsure=unsure,
            elsewhere=connected is not None and connected.record.state is State.WRONG_CLUSTER,
            why=problem.message if problem else connected.record.message if connected and not ready else "",
        )

    async def _apply(self, action: decide.DeletePod | decide.FreePod) -> None:
        namespace, name = action.pod.key
        try:
            match action:
                case decide.DeletePod(pod):
                    # A binding is permanent; a claim may change, so the resourceVersion guards it.
                    version = None if pod.here else pod.version
                    with self._pods.vanished.noticed(pod.key, pod.uid):
                        await self._client.delete(PODS, name, namespace, uid=pod.uid, version=version)
                case decide.FreePod(pod, finalizers):
                    await self._deps.proxies.release(pod.key, pod.uid, pod.version, finalizers)
        except (NotFound, Conflict):
            # The pod has changed: its event enqueues the Target again.
            pass

    def _left_by(self, pod: Object) -> Iterable[Key]:
        """Return the Targets being drained that a pod belongs to. Runs for every change of every proxy pod."""
        if not self._leaving:
            return ()
        return [
            key
            for key, (finalizer, node) in self._leaving.items()
            if finalizer in pod.finalizers or pod.node_name == node
        ]

    def _chaperon_changed(self, parent: Key) -> None:
        for key in self._leaving:
            self.queue.add(key)
