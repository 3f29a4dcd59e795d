"""The report of a soak."""

import json

from hack.lab.benchmarks.report import json_line
from hack.lab.sandbox import Sandbox
from hack.lab.soak import plan, report
from hack.lab.soak.figures import Figures
from hack.lab.soak.judge import Violation
from hack.lab.soak.soak import Result
from tests.soak.logs import ADMIN, delegate, history, outage, proxy


def result(*violations: Violation) -> Result:
    figures = Figures(Sandbox("/nowhere", ["cd"]))
    figures.memory["cd/agent"] = [(float(second), 50.0 + second) for second in range(9)]
    gone = proxy("p").created(0).running(3).deleted(10, user=ADMIN, finalizers=("f",)).released(14)
    return Result(
        plan=plan.make(7, 1, 20),
        violations=violations,
        well=12.5,
        empty=4.0,
        outages=[outage("us", "agent", 1, 9), outage("cd", "agent", 1, 2), outage("us", "link", 1, 2, "cut")],
        history=history(cd=[gone, proxy("q", "web-2").created(1)], us=delegate().created(1).running(2).gone(13)),
        figures=figures,
    )


def test_lines_have_faults_pods_memory_and_the_verdict() -> None:
    told = [each.split() for each in report.lines(result())]
    assert ["agent", "kill", "1", "1", "8.0", "s"] in told
    assert ["link", "cut", "0", "1", "1.0", "s"] in told
    assert ["proxy", "pods", "created", "2"] in told
    assert ["proxy", "pods", "deleted", "1"] in told
    assert ["cd/agent", "51", "54", "57", "58"] in told
    assert told[-1] == ["no", "violation"]


def test_violations_are_told_with_their_lines() -> None:
    told = report.lines(result(Violation("two delegates at once", "of x", tuple(f"line {each}" for each in range(20)))))
    assert "two delegates at once: of x" in told
    assert "    line 0" in told
    assert told[-1] == "    ... 8 more"


def test_machines_get_the_same_as_json() -> None:
    found = json.loads(json_line(report.figures(result(Violation("rule", "what", ("line",))))))
    assert found["pods_created"] == 2
    assert found["created_to_running"]["p50"] == 3.0
    assert found["violations"] == [{"rule": "rule", "what": "what", "lines": ["line"]}]
    assert found["faults"] == {"kill agent": 2, "cut link": 1}
