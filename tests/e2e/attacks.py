"""Attacks that repeat: by a hostile source, by a hostile target with a real API server, and by a user of the
source.

Request bodies are built once, so that the attackers need little CPU.
"""

import asyncio
import contextlib
import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from agent.api import names
from agent.api.kinds import CHAPERONS, PODS, SECRETS, TARGETS
from agent.kube.client import Client, encode
from agent.kube.errors import KubeError, NotFound
from hack.lab.sandbox.objects import apply, connect
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, condition
from tests.e2e.manifests import DEPLOYMENTS

Raw = dict[str, Any]
Act = Callable[[int], Awaitable[object]]

NOWHERE = {"e2e/node": "none"}
WRONG: tuple[Raw, ...] = ({"nodeName": 5}, {"priority": "x"}, {"schedulingGates": "x"}, {"containers": {}})
DEEP = "[" * 3000 + "]" * 3000
KEYS = 100
SEXAGESIMAL = "a: " + ":".join(["1"] * 32_000)
LAUGHING = "\n".join(["a0: &a0 [lol]", *(f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]" for n in range(6))])
DELEGATES = 4
MINE = {"example.com/mine": "x" * (20 * 1024)}
"""Counts twice in the proxy pod, since its manifest annotation contains it, too."""
ANNOTATIONS = [{f"example.com/{name}": letter * (75 * 1024) for name in "abc"} for letter in "xy"]
EXPECTED = {
    "wrong types: Invalid",
    "deep: done",
    "many keys: done",
    "long in us: done",
    "long in cd: done",
    "reviewed: Invalid",
    "kubeconfigs: done",
    "annotations: done",
}
"""Outcome of each attack, as in `told`."""


class Attacks:
    """All attacks, in a namespace of their own. `source` uses a token of eu in us; eu is also a target of cd.

    `told` counts outcomes by attack: `done`, or the error's name.
    """

    def __init__(self, fleet: Fleet, namespace: str, source: Client) -> None:
        self._fleet = fleet
        self._namespace = namespace
        self._source = source
        self._user = fleet.source
        self.told: Counter[str] = Counter()
        spec = {**manifests.pod_spec(), "nodeSelector": NOWHERE}
        self._chaperon: Raw = {"apiVersion": CHAPERONS.api_version, "kind": CHAPERONS.name, "spec": spec}
        self._reviewed = [encode(self._elected(text)) for text in (SEXAGESIMAL, LAUGHING)]
        self._delegates: list[str] = []

    @classmethod
    @contextlib.asynccontextmanager
    async def ready(cls, fleet: Fleet, namespace: str) -> AsyncIterator["Attacks"]:
        """Prepare the attacks, and remove their objects at the end."""
        path = fleet.sandbox.directory / f"{namespace}.kubeconfig"
        path.write_text(await fleet.kubeconfig(namespace, "us", "eu"))
        source = connect(path, name="us")
        attacks = cls(fleet, namespace, source)
        try:
            await attacks._prepare()
            yield attacks
        finally:
            await attacks._leave()
            await source.session.close()

    @contextlib.asynccontextmanager
    async def under_way(self) -> AsyncIterator[None]:
        """Run all attacks concurrently, each at its own interval in seconds."""
        acts: tuple[tuple[str, float, Act], ...] = (
            ("wrong types", 0.5, self._wrong_types),
            ("deep", 5.0, self._deep),
            ("many keys", 10.0, self._many_keys),
            ("long in us", 5.0, lambda number: self._long("us", number)),
            ("long in cd", 5.0, lambda number: self._long("cd", number)),
            ("reviewed", 0.5, self._review),
            ("kubeconfigs", 1.0, self._kubeconfig),
            ("annotations", 2.0, self._annotate),
        )
        tasks = [asyncio.create_task(self._often(*act)) for act in acts]
        try:
            yield
            for task in tasks:
                assert not task.done(), task
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def too_large(self) -> bool:
        """Check that a pod's condition reports annotations of the delegate that do not fit."""
        pods = await self._fleet.pods(self._namespace, "mine")
        return any(condition(pod, "multicluster/AnnotationsHome") for pod in pods)

    async def _often(self, what: str, seconds: float, act: Act) -> None:
        for number in itertools.count():
            outcome = "done"
            try:
                await act(number)
            except KubeError as error:
                outcome = type(error).__name__
            self.told[f"{what}: {outcome}"] += 1
            await asyncio.sleep(seconds)

    def _named(self, name: str, **spec: Any) -> Raw:
        metadata = {"name": name, "labels": {names.LABEL_PARENT_UID: name}}
        return {**self._chaperon, "metadata": metadata, "spec": {**self._chaperon["spec"], **spec}}

    def _elected(self, text: str) -> Raw:
        return manifests.pod("reviewed", annotations={names.ANNOTATION_MANIFEST: text})

    async def _prepare(self) -> None:
        mine = manifests.deployment("mine", DELEGATES)
        mine["spec"]["template"]["metadata"]["annotations"] |= MINE
        await self._user.create(DEPLOYMENTS, mine, self._namespace)
        await self._fleet.running(self._namespace, "mine", DELEGATES)
        found = (await self._fleet.delegates(self._namespace)).values()
        assert {cluster for cluster, _ in found} == {"eu"}
        self._delegates = [pod["metadata"]["name"] for _, pod in found]
        await asyncio.gather(*(self._make(f"key-{number}") for number in range(KEYS)))
        for cluster in ("us", "cd"):
            pod = manifests.pod("long", elect=None, nodeSelector=NOWHERE)
            pod["spec"]["containers"][0]["args"] = ["<" * (1 << 20)]
            await self._fleet.clients[cluster].create(PODS, pod, self._namespace)
        await self._kubeconfig(0)
        spec = {"kubeconfigSecret": {"name": "aliases"}}
        await self._user.create(TARGETS, manifests.ours("Target", "aliases", self._namespace, spec))

    async def _make(self, name: str, **spec: Any) -> None:
        await self._source.create(CHAPERONS, self._named(name, **spec), self._namespace)

    async def _wrong_types(self, number: int) -> None:
        await self._make("wrong", **WRONG[number % len(WRONG)])

    async def _deep(self, number: int) -> None:
        body = json.dumps(self._named("deep", more="HERE")).replace('"HERE"', DEEP)
        await self._source.session.request("POST", CHAPERONS.path(self._namespace), body=body.encode())
        await self._source.session.request("DELETE", CHAPERONS.path(self._namespace, "deep"))

    async def _many_keys(self, number: int) -> None:
        patch = {"metadata": {"labels": {"e2e/turn": str(number)}}}
        keys = (f"key-{each}" for each in range(KEYS))
        await asyncio.gather(*(self._source.patch_raw(CHAPERONS, key, patch, self._namespace) for key in keys))

    async def _long(self, cluster: str, number: int) -> None:
        patch = {"metadata": {"labels": {"e2e/turn": str(number)}}}
        path = PODS.path(self._namespace, "long")
        content_type = "application/merge-patch+json"
        session = self._fleet.clients[cluster].session
        await session.request("PATCH", path, body=encode(patch), content_type=content_type)

    async def _review(self, number: int) -> None:
        body = self._reviewed[number % len(self._reviewed)]
        await self._user.session.request("POST", PODS.path(self._namespace), params={"dryRun": "All"}, body=body)

    async def _kubeconfig(self, number: int) -> None:
        text = f"{LAUGHING}\ncurrent-context: x{number}\ncontexts: [{{name: *a6}}]"
        await apply(self._user, SECRETS, manifests.secret("aliases", self._namespace, text))

    async def _annotate(self, number: int) -> None:
        name = self._delegates[number % DELEGATES]
        patch = {"metadata": {"annotations": ANNOTATIONS[number // DELEGATES % 2]}}
        await self._fleet.clients["eu"].patch_raw(PODS, name, patch, self._namespace)

    async def _leave(self) -> None:
        us = self._fleet.clients["us"]

        async def none_left() -> bool:
            # The client cannot decode an object of this depth, nor a list with it: delete it by name.
            with contextlib.suppress(NotFound):
                await us.session.request("DELETE", CHAPERONS.path(self._namespace, "deep"))
            left = await us.list(CHAPERONS, self._namespace)
            lasting = [each["metadata"]["name"] for each in left if "deletionTimestamp" not in each["metadata"]]
            await asyncio.gather(*(us.delete(CHAPERONS, name, self._namespace) for name in lasting))
            return not left

        await self._fleet.until("the chaperons of the hostile source are gone", none_left, about=self._namespace)
        for cluster in ("us", "cd"):
            with contextlib.suppress(KubeError):
                await self._fleet.clients[cluster].delete(PODS, "long", self._namespace, grace=0)
