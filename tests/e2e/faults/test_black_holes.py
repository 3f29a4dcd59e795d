"""No pod is lost or duplicated if a link drops all traffic before or after any write in a pod's life."""

import itertools
from collections.abc import Mapping

import pytest

from hack.lab.sandbox.blackhole import Lost
from tests.e2e.faults.holes import STEPS, Hole, Step, swallowed
from tests.e2e.fleet import Fleet

FEW = 6
pytestmark = [pytest.mark.usefixtures("processes_only"), pytest.mark.seldom]
LOST: tuple[Lost, ...] = ("requests", "replies")


@pytest.mark.parametrize(
    ("step", "lost"),
    list(itertools.product(STEPS, LOST)),
    ids=lambda value: value.what if isinstance(value, Step) else value,
)
async def test_silence_from_any_write_on_loses_no_pod_and_makes_none_twice(
    fleet: Fleet, holes: Mapping[str, Hole], step: Step, lost: Lost
) -> None:
    await swallowed(fleet, holes, step, lost, FEW)
