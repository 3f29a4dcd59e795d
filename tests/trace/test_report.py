"""Output of hack/trace."""

from hack.lab.sandbox.objects import REPOSITORY
from hack.lab.trace.fleet import Traced
from hack.lab.trace.recorder import Calls
from hack.lab.trace.report import by_module, lines, of_scheduler, purpose

STEP: Calls = {
    ("agent.scheduler.controller", "ProxyScheduler.reconcile"): 2,
    ("agent.ranking.rank", "rank"): 1,
    ("agent.scheduler.controller", "ProxyScheduler.order"): 3,
}
ERRAND: Calls = {("agent.scheduler.metrics", "Stopwatch.lap"): 1, ("agent.ranking.rank", "rank"): 4}
FEEDBACK: Calls = {
    ("agent.pods.feedback.controller", "Feedback.reconcile"): 1,
    ("agent.scheduler.modes", "x"): 1,
}
CONTROLLERS = {"scheduler": STEP, "feedback": FEEDBACK, "candidates": ERRAND}


def test_only_controllers_of_the_scheduler_count_and_all_of_them() -> None:
    assert of_scheduler(CONTROLLERS) == {
        ("agent.scheduler.controller", "ProxyScheduler.reconcile"): 2,
        ("agent.ranking.rank", "rank"): 5,
        ("agent.scheduler.controller", "ProxyScheduler.order"): 3,
        ("agent.scheduler.metrics", "Stopwatch.lap"): 1,
    }


def test_functions_stand_with_their_module_where_it_was_first_called() -> None:
    assert by_module(STEP) == {
        "agent.scheduler.controller": {"ProxyScheduler.reconcile": 2, "ProxyScheduler.order": 3},
        "agent.ranking.rank": {"rank": 1},
    }


def test_the_last_line_counts_modules_beside_the_limit_of_the_mode() -> None:
    reserve = Traced("reserve", "admiralty-default-us", {"cd/agent": CONTROLLERS})
    assert lines(reserve, REPOSITORY)[-1] == "3 modules (limit 30), 4 functions, 11 calls"
    ranked = Traced("ranked", "admiralty-default-us", {"cd/agent": {"scheduler": STEP}})
    assert lines(ranked, REPOSITORY)[-1] == "2 modules (limit 20), 3 functions, 6 calls"


def test_modules_are_counted_by_package_too() -> None:
    found = lines(Traced("ranked", "admiralty-default-us", {"cd/agent": CONTROLLERS}), REPOSITORY)
    assert found[-2] == "modules by package: agent.scheduler 2, agent.ranking 1"


def test_every_function_is_told_with_its_count_and_every_module_with_its_purpose() -> None:
    found = lines(Traced("ranked", "admiralty-default-us", {"cd/agent": {"scheduler": STEP}}), REPOSITORY)
    assert found[0] == "A pod in mode ranked, bound to admiralty-default-us: what the scheduler calls for it"
    assert found[1] == f"   1  agent.scheduler.controller: {purpose(REPOSITORY, 'agent.scheduler.controller')}"
    assert "          3 x ProxyScheduler.order" in found


def test_all_controllers_and_processes_are_told_only_as_a_whole() -> None:
    traced = Traced("ranked", "admiralty-default-us", {"cd/agent": CONTROLLERS, "us/agent": {"chaperon": FEEDBACK}})
    found = lines(traced, REPOSITORY, whole=True)
    assert [line for line in found if "/agent, " in line] == [
        "cd/agent, scheduler",
        "cd/agent, feedback",
        "cd/agent, candidates",
        "us/agent, chaperon",
    ]
    assert not any("/agent, " in line for line in lines(traced, REPOSITORY))


def test_the_purpose_of_a_package_is_that_of_its_first_file() -> None:
    assert purpose(REPOSITORY, "agent.ranking") != ""
