"""Applications that take long to analyse do not block the event loop."""

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import msgspec
import pytest

from agent.api.kinds import SCHEDULING_MANIFESTS
from agent.applications.analyst import Analyst
from agent.applications.memory import Memory
from agent.kube.store import Object
from agent.model.p2code.detect import Services
from tests.model.applications import Raw, container, manifest, spec_of, workload
from tests.stalls import StallWatch

if TYPE_CHECKING:
    from agent.applications.services import LiveServices

HALF_A_MIB = 500_000


def analyst(live: Services) -> Analyst:
    return Analyst(cast("LiveServices", SimpleNamespace(of=lambda namespaces: live)), "global")


def application(*manifests: Raw) -> Object:
    metadata = {"name": "shop", "namespace": "team", "uid": "u", "generation": 1}
    spec = spec_of(*manifests, own=[{"name": "web"}])
    return Object(SCHEDULING_MANIFESTS, msgspec.json.encode({"metadata": metadata, "spec": spec}))


def annotated(**annotations: str) -> Raw:
    found = workload("web")
    found["metadata"]["annotations"] = {
        f"multicluster/{key.replace('_', '-')}": each for key, each in annotations.items()
    }
    return found


SOURCE = [{"configMapRef": {"name": "settings"}}]
MANY = {"containers": [{"name": f"c{number}", "image": "i", "envFrom": SOURCE} for number in range(1000)]}
SELECTOR = {"matchExpressions": [{"key": f"k{number}", "operator": "DoesNotExist"} for number in range(10_000)]}
LONG = [
    pytest.param(
        [workload("web", spec=MANY), manifest("ConfigMap", "settings", data={"a": "a.b," * (HALF_A_MIB // 4)})],
        id="a large source in many containers",
    ),
    pytest.param([workload("web", spec=container(args=["x:1 " * (HALF_A_MIB // 2)]))], id="a long argument"),
    pytest.param(
        [
            annotated(
                depends_on=",".join(f"s{number}:80" for number in range(30_000)),
                ignore_links=",".join(f"t{number}:80" for number in range(30_000)),
            )
        ],
        id="long annotations",
    ),
    pytest.param(
        [
            *(workload(f"w{n}") for n in range(300)),
            workload("web"),
            manifest("NetworkPolicy", spec={"podSelector": SELECTOR}),
        ],
        id="a long selector and many workloads",
    ),
]


@pytest.mark.parametrize("manifests", LONG)
async def test_the_event_loop_goes_on_while_an_application_is_analysed(manifests: list[Raw]) -> None:
    psm, memory = application(*manifests), Memory()
    async with StallWatch() as watch:
        found = await analyst({("demo", "old"): frozenset((80,))}).draft(psm, memory, "elect")
    assert watch.flaw() == ""
    assert memory.draft is found


async def test_a_draft_is_made_once_for_a_generation_and_calls_once_for_the_services_that_there_are() -> None:
    live: dict[tuple[str, str], frozenset[int]] = {}
    psm, memory, looking = application(workload("web", spec=container(args=["old:80"]))), Memory(), analyst(live)
    first = await looking.draft(psm, memory, "elect")
    calls = memory.calls
    assert await looking.draft(psm, memory, "elect") is first
    assert memory.calls is calls
    assert not calls.of["web"]
    assert await analyst({("demo", "old"): frozenset((80,))}).draft(psm, memory, "elect") is first
    assert [str(each) for each in memory.calls.of["web"]] == ["demo/old:80"]
    assert memory.called == {("demo", "old")}
    assert await looking.draft(psm, memory, "works") is not first
