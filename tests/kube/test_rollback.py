"""Informers of an API server that has lost part of its history; test_restored.py uses a real one."""

import pytest

from agent.api.kinds import CONFIGMAPS
from agent.kube import rollback
from agent.kube.errors import Outdated
from agent.kube.informer import Informer
from agent.kube.rollback import Progress
from tests.kube.pretending import KIND, Pretender, chaperon
from tests.kube.watching import Follower, running, versions
from tests.waiting import until

BEFORE = [chaperon("stays", 1), chaperon("goes-back", 90), chaperon("is-forgotten", 95)]
LATER = b',"status":{"phase":"Running"}'
EARLIER = b',"status":{"phase":"Pending"}'


def told(informer: Informer) -> dict[str, tuple[str, str]]:
    """Return version and phase of the objects in the store."""
    return {obj.name: (obj.version, obj.phase) for obj in informer.store}


async def test_what_a_restored_server_has_replaces_what_is_known_whatever_the_versions() -> None:
    async with Pretender.started() as server:
        server.items = BEFORE
        informer = Informer(server.client, KIND)
        async with running(informer, Follower(informer, rolls_back=True)) as follower:
            await until(lambda: server.watches)
            server.restore([chaperon("stays", 1), chaperon("goes-back", 40), chaperon("comes-back", 39)], 50)
            await until(lambda: told(informer).keys() == {"stays", "goes-back", "comes-back"})
            assert versions(informer) == follower.known
            assert told(informer)["goes-back"] == ("40", "")
            await until(lambda: server.watches == ["100", "50"])
            assert informer.rollbacks == 1
            server.tell("MODIFIED", chaperon("goes-back", 51, LATER))
            await until(lambda: told(informer)["goes-back"] == ("51", "Running"))
            assert not informer.relisting


async def test_a_version_may_have_been_something_else_in_the_history_that_was_lost() -> None:
    async with Pretender.started() as server:
        server.items = [chaperon("a", 60, LATER)]
        informer = Informer(server.client, KIND)
        async with running(informer, Follower(informer, rolls_back=True)):
            await until(lambda: server.watches)
            server.restore([chaperon("a", 60, EARLIER)], 70)
            await until(lambda: told(informer)["a"] == ("60", "Pending"))


async def test_where_versions_were_raised_objects_go_back_although_lists_go_forward() -> None:
    async with Pretender.started() as server:
        server.items = BEFORE
        informer = Informer(server.client, KIND)
        async with running(informer, Follower(informer, rolls_back=True)) as follower:
            expired = b'{"type":"ERROR","object":{"kind":"Status","reason":"Expired","code":410,"message":"too old"}}\n'
            await until(lambda: server.watches)
            server.restore([chaperon("stays", 1), chaperon("goes-back", 40)], 1_000_000)
            server.lines.append(expired)
            await until(lambda: versions(informer) == {("default", "stays"): "1", ("default", "goes-back"): "40"})
            server.lines.clear()
            assert versions(informer) == follower.known


async def test_answers_to_our_own_writes_wait_for_the_list_of_the_history_that_they_are_of() -> None:
    async with Pretender.started() as server:
        server.items = BEFORE
        informer = Informer(server.client, KIND)
        gone: list[str] = []
        informer.subscribe(lambda old, new: gone.append(old.name) if old and not new else None)
        async with running(informer, Follower(informer, rolls_back=True)):
            await until(lambda: server.watches)
            server.hold_lists()
            server.restore([chaperon("stays", 1)], 50)
            await until(lambda: informer.rollbacks)
            informer.absorb(chaperon("new", 51))
            informer.absorb(chaperon("goes-back", 200))
            assert informer.store.get(("default", "new")) is None
            server.items.append(chaperon("new", 51))
            server.version = "51"
            server.release_lists()
            await until(lambda: told(informer).keys() == {"stays", "new"})
            assert sorted(gone) == ["goes-back", "is-forgotten"]
            informer.absorb(chaperon("newer", 52))
            assert informer.store.get(("default", "newer")) is not None


async def test_a_watch_that_merely_ends_is_resumed() -> None:
    async with Pretender.started() as server:
        server.items, server.wait = BEFORE, 0.05
        informer = Informer(server.client, KIND)
        async with running(informer):
            server.tell("MODIFIED", chaperon("stays", 120))
            await until(lambda: server.watches[-2:] == ["120", "120"])
            assert server.lists == ["500"]
            assert informer.rollbacks == 0


async def test_after_a_long_time_without_a_watch_a_restored_server_may_have_caught_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Pretender.started() as server:
        server.items = BEFORE
        informer = Informer(server.client, KIND)
        async with running(informer, Follower(informer, rolls_back=True)):
            monkeypatch.setattr(rollback, "LOST_SECONDS", 0.0)
            await until(lambda: server.watches)
            server.restore([chaperon("stays", 1), chaperon("goes-back", 40)], 150)
            await until(lambda: told(informer).keys() == {"stays", "goes-back"})
            assert told(informer)["goes-back"] == ("40", "")


async def test_what_is_told_says_whether_it_comes_from_a_list() -> None:
    async with Pretender.started() as server:
        server.items = BEFORE
        informer = Informer(server.client, KIND)
        gone: list[tuple[str, bool]] = []
        informer.subscribe(lambda old, new: gone.append((old.name, informer.relisting)) if old and not new else None)
        async with running(informer, Follower(informer, rolls_back=True)):
            server.tell("DELETED", chaperon("goes-back", 101))
            await until(lambda: gone)
            await until(lambda: server.watches)
            server.restore([chaperon("stays", 1)], 50)
            await until(lambda: len(gone) == 2)
            assert gone == [("goes-back", False), ("is-forgotten", True)]


async def test_nothing_is_asked_while_there_was_no_watch_yet_or_it_is_open() -> None:
    async with Pretender.started() as server:
        progress, server.version = Progress(), "5"
        progress.listed("9")
        await progress.check(server.client, KIND, None, "")
        progress.ended()
        with pytest.raises(Outdated, match="at version 5, and was at 9: a backup was restored"):
            await progress.check(server.client, KIND, None, "")
        progress.listed("5")
        progress.opened()
        await progress.check(server.client, KIND, None, "")
        assert not progress.rolled_back


async def test_what_one_informer_finds_counts_for_all_of_its_cluster() -> None:
    """The version may already have passed that of a rarely changing collection before its informer asks."""
    async with Pretender.started() as server:
        server.items = [chaperon("is-forgotten", 60)]
        server.version = "60"
        seldom, often = Informer(server.client, KIND), Informer(server.client, CONFIGMAPS)
        async with (
            running(seldom, Follower(seldom, rolls_back=True)),
            running(often, Follower(often, rolls_back=True)),
        ):
            await until(lambda: len(server.watches) == 2)
            often._progress.told("90")
            server.restore([chaperon("stays", 1)], 70)
            await until(lambda: told(seldom).keys() == told(often).keys() == {"stays"})
            assert (seldom.rollbacks, often.rollbacks) == (1, 1)
