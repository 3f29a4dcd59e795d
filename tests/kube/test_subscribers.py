"""Subscribers are called once a whole list is in the store, and observe each object's changes without a gap."""

from agent.kube.errors import KubeError
from agent.kube.informer import Informer
from agent.kube.store import Key, Object, Store
from agent.kube.subscribers import Subscribers
from tests.kube.objects import obj
from tests.kube.pretending import KIND, Pretender, chaperon
from tests.kube.watching import Follower, running, versions
from tests.waiting import until

MANY = 700
"""More than one page of a list."""


class Listener:
    """Subscriber that checks that each change begins where the previous one ended."""

    def __init__(self) -> None:
        self.known: dict[Key, Object] = {}
        self.told: list[tuple[str, str]] = []

    def __call__(self, old: Object | None, new: Object | None) -> None:
        about = new or old
        assert about is not None
        assert self.known.get(about.key) is old
        self.told.append((old.version if old else "", new.version if new else ""))
        if new is None:
            del self.known[about.key]
        else:
            self.known[about.key] = new


class Kept:
    """Store with subscribers, changed as an informer changes it."""

    def __init__(self) -> None:
        self.store = Store()
        self.errors: list[Exception] = []
        self.subscribers = Subscribers(self.store, lambda about, error, who: self.errors.append(error))

    def put(self, new: Object) -> None:
        self.subscribers.changed(self.store.put(new), new)

    def drop(self, name: str) -> None:
        self.subscribers.changed(self.store.remove(("default", name)), None)

    def tell(self) -> None:
        for _ in self.subscribers.told():
            pass


async def test_who_is_told_of_the_first_list_finds_all_of_it_in_the_store() -> None:
    async with Pretender.started() as server:
        server.items = [chaperon(f"c{number}", number + 1) for number in range(MANY)]
        server.version = str(MANY)
        informer = Informer(server.client, KIND)
        seen: set[tuple[int, bool]] = set()
        informer.subscribe(lambda old, new: seen.add((len(informer.store), informer.synced.is_set())))
        async with running(informer) as follower:
            assert seen == {(MANY, False)}
            assert follower.known == versions(informer)


async def test_who_is_told_of_a_later_list_finds_all_of_it_in_the_store() -> None:
    async with Pretender.started() as server:
        server.items = [chaperon("stays", 1), *(chaperon(f"goes{number}", 2) for number in range(3))]
        informer = Informer(server.client, KIND)
        async with running(informer) as follower:
            seen: set[tuple[frozenset[Key], bool]] = set()
            informer.subscribe(lambda old, new: seen.add((frozenset(informer.store.keys()), informer.relisting)))
            seen.clear()
            server.items, server.version = [chaperon("stays", 101), chaperon("comes", 102)], "103"
            informer.relist()
            await until(lambda: informer.lists == 2)
            assert seen == {(frozenset({("default", "stays"), ("default", "comes")}), True)}
            assert not informer.relisting
            assert follower.known == versions(informer)


async def test_who_asks_for_a_list_while_one_is_told_gets_another() -> None:
    async with Pretender.started() as server:
        server.items = [chaperon("a", 1)]
        informer = Informer(server.client, KIND)

        def again(old: Object | None, new: Object | None) -> None:
            if old is None:
                informer.relist()

        informer.subscribe(again)
        async with running(informer, Follower(informer)):
            await until(lambda: len(server.lists) == 2)
            assert server.watches in ([], ["100"])


async def test_of_a_list_that_breaks_off_who_knew_all_before_is_told_what_came() -> None:
    async with Pretender.started() as server:
        server.items = [chaperon("a", 1)]
        informer = Informer(server.client, KIND)
        async with running(informer) as follower:
            fill = informer._fill

            async def breaks_off() -> str:
                await fill()
                informer._fill = fill  # type: ignore[method-assign]
                raise KubeError("the link is down")

            informer._fill = breaks_off  # type: ignore[method-assign]
            server.items, server.version = [chaperon("a", 101)], "101"
            server.hold_lists()
            informer.relist()
            server.release_lists()
            await until(lambda: follower.known == {("default", "a"): "101"})


def test_what_changes_while_a_list_is_told_is_told_at_once_and_once() -> None:
    kept, listener = Kept(), Listener()
    kept.subscribers.add(listener)
    kept.put(obj("a", 1))
    with kept.subscribers:
        kept.put(obj("a", 2))
        kept.put(obj("b", 2))
        kept.put(obj("c", 2))
    kept.put(obj("a", 3))
    kept.drop("b")
    assert listener.told == [("", "1"), ("1", "3")]
    kept.tell()
    assert listener.told == [("", "1"), ("1", "3"), ("", "2")]
    assert set(listener.known) == {("default", "a"), ("default", "c")}


def test_who_comes_while_a_list_is_held_back_knows_what_the_others_know() -> None:
    kept, listener = Kept(), Listener()
    for name in ("changes", "goes", "stays"):
        kept.put(obj(name, 1))
    with kept.subscribers:
        kept.put(obj("changes", 2))
        kept.drop("goes")
        kept.put(obj("comes", 2))
    kept.subscribers.add(listener)
    assert {key[1]: known.version for key, known in listener.known.items()} == dict.fromkeys(
        ("changes", "goes", "stays"), "1"
    )
    kept.tell()
    assert {key[1]: known.version for key, known in listener.known.items()} == {
        "changes": "2",
        "comes": "2",
        "stays": "1",
    }
    assert kept.errors == []


def test_one_that_fails_keeps_nobody_else_from_hearing() -> None:
    kept, listener = Kept(), Listener()

    def fails(old: Object | None, new: Object | None) -> None:
        raise ValueError("no")

    kept.subscribers.add(fails)
    kept.subscribers.add(listener)
    with kept.subscribers:
        kept.put(obj("a", 1))
    kept.tell()
    assert list(listener.known) == [("default", "a")]
    assert len(kept.errors) == 1
