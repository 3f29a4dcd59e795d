"""Mode `ranked`: chaperons that a previous agent left for a pod without a claim."""

from types import SimpleNamespace
from typing import Any

from agent.api.kinds import PODS
from agent.kube.client import encode
from agent.kube.errors import Unreachable
from agent.kube.store import Key, Object
from agent.scheduler.ranked.controller import RankedScheduling

POD = Object(PODS, encode({"metadata": {"name": "web", "namespace": "shop", "uid": "u"}}))


class Left:
    """Targets by name, all of whose chaperons were deleted. `silent` targets do not answer, `running` targets
    have a pod. The `late` silent target answers once another target has been asked, and then has a chaperon."""

    def __init__(self, silent: set[str], running: set[str], late: str = "") -> None:
        self.silent, self.running, self.late = silent, running, late
        self.gone = {"eu", "us", "asia"}
        self.asked: list[str] = []
        self.targets = [SimpleNamespace(key=("", each), ready=each not in silent) for each in sorted(self.gone)]

    def of(self, pod: Key) -> list[Any]:
        going = SimpleNamespace(deleting=True)
        late = [each for each in self.targets if each.key[1] == self.late]
        return [SimpleNamespace(target=each, chaperon=going, is_of=lambda pod: True) for each in late]

    def departed(self, target: Any, uid: str) -> object | None:
        return target if target.key[1] in self.gone else None

    def expect(self, target: Any, uid: str) -> None:
        self.gone.discard(target.key[1])

    async def is_free(self, target: Any, pod: Object) -> bool:
        self.asked.append(target.key[1])
        for each in self.targets:
            each.ready = each.ready or each.key[1] == self.late
        if target.key[1] in self.silent:
            raise Unreachable("no answer")
        return target.key[1] not in self.running

    async def cleared(self) -> bool:
        settings = SimpleNamespace(dwell=1.0, take_up=1.0)
        deps: Any = SimpleNamespace(targets=self.targets, chaperons=self, live_reads=self, settings=settings)
        found: Any = SimpleNamespace(chaperons=None)
        return await RankedScheduling(deps, found, found, found, found, lambda key: None)._cleared(POD)


async def test_a_target_that_does_not_answer_keeps_a_pod_from_no_other_and_nobody_is_asked_twice() -> None:
    left = Left(silent={"asia"}, running=set())
    assert not await left.cleared()
    assert left.asked == ["eu", "us"]
    assert not await left.cleared()
    assert left.asked == ["eu", "us"]


async def test_a_pod_waits_for_the_delegate_that_is_left() -> None:
    left = Left(silent=set(), running={"eu"})
    assert await left.cleared()
    left.running.clear()
    assert not await left.cleared()
    assert left.asked.count("eu") == 2


async def test_what_a_target_has_that_connects_while_others_are_asked_goes_first_too() -> None:
    left = Left(silent={"asia"}, running=set(), late="asia")
    assert await left.cleared()
    assert left.asked == ["eu", "us"]
