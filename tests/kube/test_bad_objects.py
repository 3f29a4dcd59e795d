"""An object that cannot be read, or that a subscriber fails on, affects no other object."""

import asyncio
import itertools
import logging
from collections.abc import Iterable

import pytest

from agent.base.metrics import REGISTRY
from agent.kube.incoming import LINE_LIMIT
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.runtime.controller import Controller
from tests.kube.pretending import BAD_TYPES, DEEP, KIND, Pretender, chaperon
from tests.kube.watching import running
from tests.waiting import until


def names(informer: Informer) -> set[str]:
    return {obj.name for obj in informer.store}


def metric(name: str) -> float:
    return REGISTRY.get_sample_value(name, {"cluster": "", "resource": KIND.plural}) or 0.0


@pytest.mark.parametrize("bad", BAD_TYPES.values(), ids=BAD_TYPES)
async def test_a_field_of_another_type_counts_as_absent_is_told_and_stops_nobody(
    bad: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "agent")
    async with Pretender.started() as server:
        server.items = [chaperon("listed", 1, bad), chaperon("good", 2)]
        informer = Informer(server.client, KIND)
        counted = metric("flotilla_watch_unreadable_total")
        async with running(informer):
            assert names(informer) == {"listed", "good"}
            for version in (101, 102):
                server.tell("MODIFIED", chaperon("told", version, bad))
            server.tell("ADDED", chaperon("later", 103))
            await until(lambda: "later" in names(informer))
            told = informer.store.get(("default", "told"))
            assert told is not None
            assert (told.version, told.node_name, told.priority, told.gated, told.phase) == ("102", "", 0, False, "")
            assert metric("flotilla_watch_unreadable_total") == counted + 3
            assert len(informer.flaws) == 2
            assert f"{KIND} default/told (Expected" in informer.flaws.told()
            # Each object is reported once, however often it is received.
            assert caplog.text.count("default/told in cluster local cannot be read") == 1
            server.tell("MODIFIED", chaperon("told", 104))
            server.tell("DELETED", chaperon("listed", 105, bad))
            await until(lambda: not len(informer.flaws))
            assert names(informer) == {"told", "good", "later"}
        assert len(server.watches) == 1


async def test_what_is_nested_too_deep_stays_what_it_was_and_is_passed_over_for_good() -> None:
    async with Pretender.started() as server:
        server.items = [chaperon("a", 1), chaperon("b", 2)]
        informer = Informer(server.client, KIND)
        gone: list[str] = []
        informer.subscribe(lambda old, new: gone.append(old.name) if old is not None and new is None else None)
        async with running(informer):
            server.tell("MODIFIED", chaperon("a", 101, DEEP))
            server.tell("ADDED", chaperon("new", 102, DEEP))
            server.tell("ADDED", chaperon("later", 103))
            await until(lambda: "later" in names(informer))
            assert names(informer) == {"a", "b", "later"}
            assert informer.store.get(("default", "a")).version == "1"  # type: ignore[union-attr]
            assert len(informer.flaws) == 2
            # The object is not read again: a resumed watch begins after it.
            informer.interrupt()
            await until(lambda: len(server.watches) == 2)
            assert server.watches[1] == "103"
            server.tell("DELETED", chaperon("a", 104, DEEP))
            server.tell("MODIFIED", chaperon("new", 105))
            await until(lambda: names(informer) == {"b", "later", "new"})
            assert (len(informer.flaws), gone) == (0, ["a"])


async def test_of_a_list_with_objects_that_cannot_be_read_the_others_are_read_and_nothing_counts_as_gone() -> None:
    async with Pretender.started() as server:
        server.items = [chaperon(f"c{number}", number + 1) for number in range(1200)]
        informer = Informer(server.client, KIND)
        gone: list[str] = []
        informer.subscribe(lambda old, new: gone.append(old.name) if old is not None and new is None else None)
        async with running(informer):
            assert server.lists == ["500", "500", "500"]
            server.items[777] = chaperon("c777", 2000, DEEP)
            server.items[1100] = chaperon("c1100", 2001, b',"spec":{"nodeName":5}')
            del server.items[3]
            server.version = "3000"
            server.lines.append(
                b'{"type":"ERROR","object":{"kind":"Status","reason":"Expired","code":410,"message":"too old"}}\n'
            )
            await until(lambda: gone == ["c3"])
            server.lines.clear()
            assert len(informer.store) == 1199
            assert informer.store.get(("default", "c777")).version == "778"  # type: ignore[union-attr]
            assert informer.store.get(("default", "c1100")).version == "2001"  # type: ignore[union-attr]
            assert len(informer.flaws) == 2
            # Pages are smaller only around the bad object.
            assert {"50", "5", "1"} <= set(server.lists)
            assert len(server.lists) < 60


async def test_an_item_without_a_name_may_be_any_of_those_that_are_missing() -> None:
    async with Pretender.started() as server:
        server.items = [chaperon("a", 1), chaperon("b", 2)]
        informer = Informer(server.client, KIND)
        async with running(informer):
            server.items = [b'{"metadata":{}}', b"5", chaperon("b", 3)]
            server.version = "200"
            server.lines.append(b'{"type":"ERROR","object":{"kind":"Status","reason":"Expired","code":410}}\n')
            await until(lambda: informer.store.get(("default", "b")).version == "3")  # type: ignore[union-attr]
            assert names(informer) == {"a", "b"}


async def test_a_subscriber_that_fails_keeps_no_other_from_hearing_and_the_watch_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR, "agent")
    heard: list[str] = []

    def failing(old: Object | None, new: Object | None) -> None:
        raise KeyError("a bug of ours")

    def index(obj: Object) -> Iterable[str]:
        if obj.name == "bad":
            raise TypeError("another one")
        return [obj.name]

    async with Pretender.started() as server:
        server.items = [chaperon("bad", 1), chaperon("good", 2)]
        informer = Informer(server.client, KIND)
        informer.store.index("name", index)
        informer.subscribe(failing)
        informer.subscribe(lambda old, new: heard.append((new or old).name))  # type: ignore[union-attr]
        counted = metric("flotilla_watch_failures_total")
        async with running(informer):
            server.tell("MODIFIED", chaperon("bad", 101))
            server.tell("ADDED", chaperon("later", 102))
            await until(lambda: "later" in heard)
            assert heard == ["bad", "good", "bad", "later"]
            assert [obj.name for obj in informer.store.by_index("name", "later")] == ["later"]
            informer.subscribe(failing)
        assert len(server.watches) == 1
    assert metric("flotilla_watch_failures_total") > counted + 4
    tracebacks = [record for record in caplog.records if record.exc_info]
    assert len(tracebacks) == 2, caplog.text


class SomeController(Controller[str]):
    name = "of the test"

    def __init__(self, informer: Informer) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.watch(informer, self._keys)

    def _keys(self, obj: Object) -> list[str]:
        if obj.labels.get("bad"):
            raise ValueError(obj.name)
        return [obj.version]

    async def reconcile(self, key: str) -> None:
        self.seen.append(key)


async def test_a_controller_hears_of_an_object_again_once_it_can_make_sense_of_it() -> None:
    async with Pretender.started() as server:
        server.items = [chaperon("a", 1).replace(b'"uid"', b'"labels":{"bad":"1"},"uid"')]
        informer = Informer(server.client, KIND)
        controller = SomeController(informer)
        task = asyncio.create_task(controller.run())
        async with running(informer):
            server.tell("MODIFIED", chaperon("a", 101))
            await until(lambda: controller.seen == ["101"])
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def big(name: str, version: int, size: int) -> bytes:
    return chaperon(name, version, b',"spec":{"x":"' + b"\\u003c" * (size // 6) + b'"}')


async def test_an_event_of_nine_megabytes_is_an_event_and_a_longer_one_is_passed_over_once() -> None:
    async with Pretender.started() as server:
        server.items = [chaperon("a", 1), chaperon("b", 2)]
        informer = Informer(server.client, KIND)
        async with running(informer):
            server.tell("MODIFIED", big("a", 101, 9 << 20))
            server.tell("MODIFIED", big("b", 102, LINE_LIMIT))
            server.tell("ADDED", big("c", 103, LINE_LIMIT))
            server.tell("ADDED", chaperon("later", 104))
            await until(lambda: "later" in names(informer))
            found = {obj.name: obj.version for obj in informer.store}
            assert found == {"a": "101", "b": "2", "later": "104"}
            assert "default/b (an event of it is longer than 16 MiB)" in informer.flaws.told()
            informer.interrupt()
            await until(lambda: len(server.watches) == 2)
            assert server.watches[1] == "104"
            server.tell("DELETED", big("b", 105, LINE_LIMIT))
            server.tell("MODIFIED", chaperon("c", 106))
            await until(lambda: names(informer) == {"a", "c", "later"})
            assert len(informer.flaws) == 0
        assert server.lists == ["500"]


GONE = b'{"type":"ERROR","object":{"kind":"Status","reason":"Expired","code":410}}\n'


@pytest.mark.parametrize("line", [GONE, b"<html>\n", b'{"type":"ADDED"}\n'], ids=["410", "no event", "no object"])
async def test_a_server_whose_watches_never_last_is_asked_less_and_less(line: bytes) -> None:
    async with Pretender.started() as server:
        server.lines = [line]
        informer = Informer(server.client, KIND)
        async with running(informer):
            await until(lambda: len(server.lists) == 5)
        pauses = [later - earlier for earlier, later in itertools.pairwise(server.listed_at)]
        assert all(pause >= 0.1 * 2**number for number, pause in enumerate(pauses))


async def test_a_server_that_ends_every_watch_at_once_is_asked_less_and_less() -> None:
    async with Pretender.started() as server:
        server.wait = 0.001
        informer = Informer(server.client, KIND)
        async with running(informer):
            await until(lambda: len(server.watches) == 5)
        pauses = [later - earlier for earlier, later in itertools.pairwise(server.watched_at)]
        assert all(pause >= 0.1 * 2**number for number, pause in enumerate(pauses))
