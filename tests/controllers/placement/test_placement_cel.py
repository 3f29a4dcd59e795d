"""CEL expressions in a worker process: cached verdicts, and expressions that exceed its limits."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
import pytest_asyncio

from agent.placement.placements.cel import CelEvaluator
from agent.ranking.placing.inputs import Score
from agent.runtime.worker import Worker

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
PROD = 'managedCluster.metadata.labels.env == "prod"'
BUSY = 'managedCluster.scores("usage").exists(s, s.name == "cpu" && s.value > 5)'
SWELLING = '"x"' + ".replace('x', 'xxxxxxxxxxxxxxxx')" * 12 + ".size() == 1"


@dataclass
class Stored:
    """A ManagedCluster as stored in an informer."""

    raw: bytes
    uid: str
    version: str
    reads: int = 0


class Read(Stored):
    """A cluster that counts reads of its raw object."""

    def __getattribute__(self, name: str) -> object:
        if name == "raw":
            self.reads += 1
        return super().__getattribute__(name)


def cluster(name: str, env: str, version: str = "1") -> Stored:
    raw = msgspec.json.encode({"metadata": {"name": name, "labels": {"env": env}}})
    return Read(raw, f"uid-{name}", version)


@pytest_asyncio.fixture
async def cel() -> AsyncIterator[CelEvaluator]:
    cel = CelEvaluator()
    yield cel
    await cel.close()


async def test_only_what_has_changed_is_asked_again(cel: CelEvaluator) -> None:
    clusters = {"eu": cluster("eu", "prod"), "us": cluster("us", "dev")}
    first = await cel.verdicts([PROD, "oops("], clusters, {}, NOW)
    assert first.matches == {(PROD, "eu")}
    assert first.errors["oops("].startswith("compilation failed: ERROR: <input>:1:6: Syntax error")
    assert first.again is None
    clusters["us"] = cluster("us", "prod", version="2")
    reads = clusters["eu"].reads
    assert (await cel.verdicts([PROD, "oops("], clusters, {}, NOW)).matches == {(PROD, "eu"), (PROD, "us")}
    assert clusters["eu"].reads == reads


async def test_a_cluster_that_no_api_server_knows_is_asked_each_time(cel: CelEvaluator) -> None:
    planned = cluster("eu", "prod")
    planned.uid = ""
    assert (await cel.verdicts([PROD], {"eu": planned}, {}, NOW)).matches
    planned.raw = cluster("eu", "dev").raw
    assert not (await cel.verdicts([PROD], {"eu": planned}, {}, NOW)).matches


async def test_scores_count_until_they_expire(cel: CelEvaluator) -> None:
    clusters = {"eu": cluster("eu", "prod"), "us": cluster("us", "prod"), "ap": cluster("ap", "prod")}
    until = NOW + timedelta(seconds=10)
    scores = {
        ("eu", "usage"): {"cpu": Score(9, until)},
        ("us", "usage"): {"cpu": Score(9)},
        ("ap", "other"): {"cpu": Score(9)},
    }
    assert (await cel.verdicts([BUSY], clusters, scores, NOW)).matches == {(BUSY, "eu"), (BUSY, "us")}
    assert (await cel.verdicts([BUSY], clusters, scores, until)).matches == {(BUSY, "us")}
    scores["us", "usage"] = {"cpu": Score(1)}
    scores["ap", "usage"] = {"cpu": Score(6)}
    assert (await cel.verdicts([BUSY], clusters, scores, until)).matches == {(BUSY, "ap")}


async def test_scores_by_a_name_that_is_made_up_while_it_runs(cel: CelEvaluator) -> None:
    named = "managedCluster.scores(managedCluster.metadata.labels.env).exists(s, s.value > 5)"
    clusters = {"eu": cluster("eu", "prod"), "us": cluster("us", "dev")}
    scores = {("eu", "prod"): {"cpu": Score(9)}, ("us", "prod"): {"cpu": Score(9)}, ("gone", "dev"): {"cpu": Score(9)}}
    assert (await cel.verdicts([named], clusters, scores, NOW)).matches == {(named, "eu")}


async def test_many_clusters_are_asked_in_parts(cel: CelEvaluator) -> None:
    clusters = {f"c{number}": cluster(f"c{number}", "prod" if number % 3 else "dev") for number in range(600)}
    found = await cel.verdicts([PROD], clusters, {}, NOW)
    assert found.matches == {(PROD, name) for name in clusters if int(name[1:]) % 3}
    assert (await cel.verdicts([PROD], {"c1": clusters["c1"]}, {}, NOW)).matches == {(PROD, "c1")}


@pytest.mark.full("Waits for expressions that take too long.")
async def test_what_takes_too_much_memory_and_time_harms_nothing_else_and_is_tried_again_later(
    cel: CelEvaluator,
) -> None:
    clusters = {"eu": cluster("eu", "prod")}
    found = await cel.verdicts([SWELLING, PROD], clusters, {}, NOW)
    assert found.matches == {(PROD, "eu")}
    assert found.errors[SWELLING].startswith("evaluation failed: ")
    assert found.again == NOW + timedelta(minutes=1)
    soon = NOW + timedelta(seconds=59)
    reads = clusters["eu"].reads
    assert (await cel.verdicts([SWELLING], clusters, {}, soon)).errors == {SWELLING: found.errors[SWELLING]}
    assert clusters["eu"].reads == reads
    assert SWELLING in (await cel.verdicts([SWELLING], clusters, {}, found.again)).errors
    assert clusters["eu"].reads == reads + 1


@pytest.mark.full("Waits for expressions that take too long.")
async def test_an_expression_that_fails_again_waits_longer_each_time_and_is_tried_at_once_after_a_change(
    cel: CelEvaluator,
) -> None:
    cel._worker = Worker("tests.runtime.served:cel")
    clusters, now, minutes = {"eu": cluster("eu", "prod")}, NOW, []
    for _ in range(8):
        again = (await cel.verdicts(["exit"], clusters, {}, now, namespace="a")).again
        assert again is not None
        minutes.append((again - now).total_seconds() / 60)
        reads = clusters["eu"].reads
        await cel.verdicts(["exit"], clusters, {}, again - timedelta(seconds=1), namespace="a")
        assert clusters["eu"].reads == reads, "not before its time"
        now = again
    assert minutes == [1, 2, 4, 8, 16, 32, 60, 60]
    reads = clusters["eu"].reads
    await cel.verdicts(["exit"], clusters, {}, now, namespace="a", at_once=True)
    assert clusters["eu"].reads == reads + 1


async def test_twenty_expressions_that_fail_delay_one_of_another_namespace_by_one_turn(cel: CelEvaluator) -> None:
    cel._worker = Worker("tests.runtime.served:cel")
    clusters, ended = {"eu": cluster("eu", "prod")}, list[str]()

    async def ask(namespace: str, expression: str) -> None:
        await cel.verdicts([expression], clusters, {}, NOW, namespace=namespace)
        ended.append(expression)

    bad = [asyncio.create_task(ask("a", f"exit {number}")) for number in range(20)]
    await asyncio.sleep(0)
    await ask("b", "good")
    assert len(ended) <= 2
    for each in bad:
        each.cancel()
    await asyncio.gather(*bad, return_exceptions=True)


async def test_placements_of_a_namespace_with_one_expression_have_it_asked_once(cel: CelEvaluator) -> None:
    cel._worker = Worker("tests.runtime.served:cel")
    clusters = {"eu": cluster("eu", "prod")}
    asked = [cel.verdicts(["exit"], clusters, {}, NOW, namespace="a") for _ in range(10)]
    assert [list(each.errors) for each in await asyncio.gather(*asked)] == [["exit"]] * 10
    assert clusters["eu"].reads == 1


async def test_what_a_namespace_has_too_much_of_is_forgotten_of_that_one(
    cel: CelEvaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.placement.placements.cel._EXPRESSIONS", 10)
    cel._worker = Worker("tests.runtime.served:cel")
    clusters = {"eu": cluster("eu", "prod")}
    await cel.verdicts(["good"], clusters, {}, NOW, namespace="b")
    for number in range(20):
        await cel.verdicts([f"many {number}"], clusters, {}, NOW, namespace="a")
    reads = clusters["eu"].reads
    await cel.verdicts(["good"], clusters, {}, NOW, namespace="b")
    assert clusters["eu"].reads == reads


async def test_what_was_asked_for_longest_ago_is_forgotten(cel: CelEvaluator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.placement.placements.cel._VERDICTS", 3)
    clusters = {"eu": cluster("eu", "prod"), "us": cluster("us", "prod")}
    await cel.verdicts([PROD], clusters, {}, NOW)
    await cel.verdicts(["true"], clusters, {}, NOW)
    reads = clusters["eu"].reads
    await cel.verdicts(["true"], clusters, {}, NOW)
    assert clusters["eu"].reads == reads
    await cel.verdicts([PROD], clusters, {}, NOW)
    assert clusters["eu"].reads == reads + 1


async def test_without_clusters_nothing_is_asked(cel: CelEvaluator) -> None:
    assert not (await cel.verdicts(["oops("], {}, {}, NOW)).errors
