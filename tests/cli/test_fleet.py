"""Targets and proxy pods as table rows; without clusters."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from agent.api import names
from agent.api.kinds import CLUSTER_TARGETS, NODES, PODS, TARGETS
from agent.cli.fleet import show
from agent.cli.fleet.lines import TargetLine, pod_lines, target_lines, unplaced
from agent.cli.fleet.source_queries import SourceView, connection_of
from agent.cli.fleet.target_queries import Answer, Delegate
from agent.cli.fleet.units import age, cores, size
from agent.cli.options import Output
from agent.cli.output import as_json
from agent.kube.client import Client
from agent.kube.config import Connection
from agent.kube.session import Session
from agent.kube.store import Object
from agent.targets.target.gather import Problem

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
AGO = "2026-01-01T11:57:00Z"
EU = "admiralty-default-eu"
Raw = dict[str, Any]


def obj(kind: Any, raw: Raw) -> Object:
    return Object(kind, msgspec.json.encode(raw))


def target(name: str, namespace: str = "default", ready: str = "True", reachable: str = "True", **spec: Any) -> Object:
    conditions = [
        {"type": "Ready", "status": ready, "reason": "Connected", "message": "connected", "lastTransitionTime": AGO},
        {"type": "Reachable", "status": reachable, "lastTransitionTime": AGO},
    ]
    manifest = {
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec or {"kubeconfigSecret": {"name": name, "namespace": "kube-system"}},
        "status": {"conditions": conditions},
    }
    return obj(TARGETS if namespace else CLUSTER_TARGETS, manifest)


def node(name: str, *, free: Raw | None = None, cordoned: bool = False) -> Object:
    annotations = {names.ANNOTATION_FREE: msgspec.json.encode(free).decode()} if free else {}
    status = {"allocatable": {"cpu": "32", "memory": "64Gi"}, "nodeInfo": {"kubeletVersion": "v1.36.3"}}
    metadata = {"name": name, "annotations": annotations}
    return obj(NODES, {"metadata": metadata, "spec": {"unschedulable": cordoned}, "status": status})


def pod(name: str, on: str = "", phase: str = "Running", claim: str = "", **status: Any) -> Object:
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "creationTimestamp": AGO,
        "annotations": {names.ANNOTATION_CLAIM: claim} if claim else {},
    }
    return obj(PODS, {"metadata": metadata, "spec": {"nodeName": on}, "status": {"phase": phase, **status}})


def fleet(targets: list[Object], nodes: list[Object], *pods: Object) -> SourceView:
    return SourceView(tuple(targets), {each.name: each for each in nodes}, pods)


def line(*args: Any, answers: dict[tuple[str, str], Answer] | None = None) -> TargetLine:
    [found] = target_lines(fleet(*args), answers or {})
    return found


def row(lines: list[TargetLine], *, wide: bool = False) -> dict[str, str]:
    heads, rows = show.targets_table(lines, NOW, wide=wide)
    return dict(zip(heads, rows[0], strict=True))


def test_a_target_has_its_room_its_version_and_its_pods() -> None:
    found = line(
        [target("eu")],
        [node(EU, free={"cpu": "12500m", "memory": "1536Mi"})],
        pod("runs", EU),
        pod("starts", EU, "Pending"),
        pod("done", EU, "Succeeded"),
        pod("tried", claim=EU, phase="Pending"),
        answers={("default", "eu"): Answer("v1.36.3", "0.1.0", 0.012)},
    )
    assert row([found], wide=True) == {
        "NAME": "eu",
        "SERVES": "default",
        "NODE": EU,
        "READY": "True",
        "REASON": "Connected",
        "PODS": "2",
        "CPU": "12.5/32",
        "MEMORY": "1.5Gi/64Gi",
        "AGENT": "0.1.0",
        "LAST ANSWER": "now",
        "PENDING": "2",
        "KUBERNETES": "v1.36.3",
        "ANSWERS IN": "12ms",
        "CREDENTIALS": "Secret default/eu",
        "MESSAGE": "connected",
    }


def test_what_is_not_known_is_a_dash() -> None:
    found = row([line([target("eu")], [])], wide=True)
    assert [found[head] for head in ("NODE", "CPU", "MEMORY", "AGENT", "KUBERNETES", "ANSWERS IN")] == [
        "-",
        "-/-",
        "-/-",
        "-",
        "-",
        "-",
    ]


def test_a_target_that_does_not_answer_says_since_when() -> None:
    found = line([target("eu", ready="False", reachable="False")], [node(EU)])
    assert row([found])["LAST ANSWER"] == "3m ago"
    assert show.not_ready([found]) == ["eu (default): connected"]


def test_a_cordoned_target_and_a_cluster_target_and_this_cluster_itself_say_so() -> None:
    found = line([target("me", "", self=True)], [node("admiralty-me", cordoned=True)])
    assert found.credentials == "self"
    assert (row([found])["READY"], row([found])["SERVES"]) == ("True,Cordoned", "all namespaces")


def test_a_target_of_which_nothing_is_said_is_not_ready() -> None:
    silent = obj(TARGETS, {"metadata": {"name": "eu", "namespace": "default"}, "spec": {"self": True}})
    found = line([silent], [])
    assert (found.ready, found.last_answer) == ("Unknown", "")
    assert show.not_ready([found])


async def test_a_cluster_that_a_target_does_not_stand_for_is_not_asked_in_its_place() -> None:
    wrong = target("eu").decode()
    wrong["status"]["conditions"][0] |= {"status": "False", "reason": "WrongCluster", "message": "it leads elsewhere"}
    async with Session(Connection("http://127.0.0.1:1")) as session:
        with pytest.raises(Problem, match="it leads elsewhere"):
            await connection_of(Client(session), obj(TARGETS, wrong))


def test_a_free_amount_that_somebody_has_spoilt_is_not_known() -> None:
    spoilt = obj(NODES, {"metadata": {"name": EU, "annotations": {names.ANNOTATION_FREE: "x"}}, "status": {}})
    assert line([target("eu")], [spoilt]).cpu.free == ""


def test_pods_have_their_target_and_the_delegate_that_the_target_tells_of() -> None:
    seen = fleet([target("eu")], [], pod("a", EU), pod("b", "", "Pending", claim=EU), pod("c", "", "Pending"))
    lines = pod_lines(seen, {"uid-a": Delegate("a-1", "node-7", "Running")}, "default")
    heads, rows = show.pods_table(lines, NOW, wide=False, everywhere=True)
    assert heads == ["NAMESPACE", "NAME", "STATUS", "TARGET", "DELEGATE", "DELEGATE NODE", "AGE"]
    assert rows == [
        ["default", "a", "Running", "eu", "a-1", "node-7", "3m"],
        ["default", "b", "Pending", "(eu)", "-", "-", "3m"],
        ["default", "c", "Pending", "-", "-", "-", "3m"],
    ]
    assert unplaced(seen) == 1


def test_without_the_target_a_delegate_still_has_the_name_of_its_chaperon() -> None:
    [found] = pod_lines(fleet([target("eu")], [], pod("a", EU)), {}, None)
    assert (found.delegate, found.delegate_node) == (names.chaperon("a", "uid-a"), "")


def test_only_pods_of_a_namespace_or_target_are_shown_where_one_is_named() -> None:
    seen = fleet([target("eu")], [], pod("a", EU), pod("b"))
    assert [each.name for each in pod_lines(seen, {}, "default", "eu")] == ["a"]
    assert pod_lines(seen, {}, "other") == []


def test_the_status_is_what_kubectl_would_say() -> None:
    waiting = {"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    seen = fleet([], [], pod("a", EU, "Pending", containerStatuses=[waiting]), pod("b", EU, "Failed", reason="Evicted"))
    assert [each.status for each in pod_lines(seen, {}, None)] == ["ImagePullBackOff", "Evicted"]


@pytest.mark.parametrize(
    ("seconds", "want"), [(0, "0s"), (119, "119s"), (120, "2m"), (7200, "2h"), (172800, "2d"), (-5, "0s")]
)
def test_ages_are_as_short_as_kubectls(seconds: float, want: str) -> None:
    assert age(seconds) == want


def test_amounts_are_short() -> None:
    assert (cores("250m"), cores("32"), cores(""), cores("x")) == ("0.2", "32", "-", "-")
    assert (size("1610612736"), size("900Ki"), size("0"), size("")) == ("1.5Gi", "900Ki", "0", "-")


def test_tables_go_to_standard_output_and_notes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line([target("eu")], [])]
    found = show.Found("targets", lines, ["pods are not counted"])
    show.show(found, Output.TABLE, show.targets_table(lines, NOW, wide=False))
    written = capsys.readouterr()
    assert written.out.startswith("NAME")
    assert written.err == "Note: pods are not counted\n"
    show.show(found, Output.JSON, ((), ()))
    document = msgspec.json.decode(capsys.readouterr().out)
    assert document["targets"][0]["cpu"] == {"free": "", "allocatable": ""}
    assert document["notes"] == ["pods are not counted"]
    assert (
        as_json({"targets": lines, "notes": found.notes})
        == msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
    )


def test_a_message_may_be_old() -> None:
    assert show.last_answer(line([target("eu", reachable="False")], []), NOW + timedelta(hours=3)) == "3h ago"
