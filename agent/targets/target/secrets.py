"""Target Secrets: keep the credentials of a target until it is drained (ruling 8).

Watches  Targets, ClusterTargets, the state of connected targets, Secrets with our label.
Writes   finalizer and label of Secrets: added when a Target that refers to one is ready for the first time; removed
         when no Target refers to it any longer, also after an edit, a forced removal, or a time without an agent.
"""

import contextlib

from agent.api import names
from agent.api.kinds import NAMESPACES, SECRETS, TARGET_KINDS
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.kube.errors import Forbidden, NotFound
from agent.kube.store import Key, Object
from agent.runtime.controller import Controller
from agent.targets.target import gather

_AGAIN_SECONDS = 2.0


class TargetSecretController(Controller[Key]):
    """Keys are those of Secrets."""

    name = "target-secret"
    workers = 2

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._client = deps.local.client
        self._objects = deps.local.either(TARGET_KINDS)
        gather.index_secrets(self._objects)
        self._held = deps.local.informer(SECRETS, labels=names.LABEL_TARGET_SECRET)
        self._pods = deps.proxies.informer
        for informer in self._objects.informers:
            self.watch(informer, _referred)
        self.watch(self._held, lambda secret: [secret.key])
        self.watch(self._pods, lambda pod: ())
        deps.targets.on_change(self._target_changed)

    async def reconcile(self, key: Key) -> float | None:
        """Add the finalizer to a Secret, or remove it."""
        users = gather.users_of(self._objects, key)
        held = self._held.store.get(key)
        if held is None:
            if any(self._in_use(user) for user in users):
                await self._put(key)
            return None
        if names.FINALIZER_DRAIN not in held.finalizers and users and not held.deleting:
            await self._put(key)
        elif not users or (held.deleting and not await self._is_needed(key, users)):
            await self._take(held)
        elif held.deleting:
            return _AGAIN_SECONDS
        return None

    def _target_changed(self, target: Target) -> None:
        obj = self._objects.get(target.key)
        for key in _referred(obj) if obj is not None else ():
            self.queue.add(key)

    def _in_use(self, target: Object) -> bool:
        connected = self._deps.targets.get(target.key)
        return connected is not None and connected.ready

    def _has_pods(self, target: Object) -> bool:
        return self._deps.proxies.count_held_for(names.finalizer(*target.key)) > 0

    async def _is_needed(self, key: Key, users: list[Object]) -> bool:
        """Return True if a Secret that is being deleted has to stay for now.

        A Target, its Secret and their namespace may be deleted in any order. An agent that starts in between could
        not drain the Target without the Secret.
        """
        undrained = [user for user in users if names.FINALIZER_DRAIN in user.finalizers]
        if any(self._has_pods(user) for user in users) or any(user.deleting for user in undrained):
            return True
        if not undrained:
            return False
        try:
            namespace = await self._client.get(NAMESPACES, key[0])
        except (NotFound, Forbidden):
            return False
        return "deletionTimestamp" in namespace["metadata"]

    async def _put(self, key: Key) -> None:
        try:
            secret = Object(SECRETS, await self._client.get_raw(SECRETS, key[1], key[0]))
            if not secret.deleting:
                finalizers = [name for name in secret.finalizers if name != names.FINALIZER_DRAIN]
                # Update the store at once: otherwise the next event would add the finalizer again.
                self._held.absorb(await self._patch(secret, [*finalizers, names.FINALIZER_DRAIN], "true"))
        except (NotFound, Forbidden):
            # A Secret that the agent may read but not change works without the finalizer.
            pass

    async def _take(self, secret: Object) -> None:
        rest = [name for name in secret.finalizers if name != names.FINALIZER_DRAIN]
        with contextlib.suppress(NotFound):
            await self._patch(secret, rest, None)

    async def _patch(self, secret: Object, finalizers: list[str], label: str | None) -> bytes:
        body = {
            "metadata": {
                "resourceVersion": secret.version,
                "finalizers": finalizers or None,
                "labels": {names.LABEL_TARGET_SECRET: label},
            }
        }
        return await self._client.patch_raw(SECRETS, secret.name, body, secret.namespace)


def _referred(target: Object) -> list[Key]:
    secret = gather.secret_of(target)
    return [secret] if secret is not None else []
