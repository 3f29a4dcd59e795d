"""Like `test_black_holes`, in mode `reserve`: links drop traffic from any write about candidates on."""

import itertools
from collections.abc import Mapping

import pytest

from hack.lab.sandbox.blackhole import Lost
from tests.e2e.faults.holes import LOSING, RESERVING, Hole, Step, swallowed
from tests.e2e.fleet import Fleet

FEW = 3
pytestmark = [pytest.mark.usefixtures("processes_only"), pytest.mark.seldom]
LOST: tuple[Lost, ...] = ("requests", "replies")


@pytest.mark.parametrize(
    ("step", "lost"),
    list(itertools.product((*RESERVING, LOSING), LOST)),
    ids=lambda value: value.what if isinstance(value, Step) else value,
)
async def test_silence_from_any_write_about_candidates_on_loses_no_pod_and_makes_none_twice(
    fleet: Fleet, holes: Mapping[str, Hole], step: Step, lost: Lost
) -> None:
    await swallowed(fleet, holes, step, lost, FEW, weight=-100 if step is LOSING else 100)
