"""An object that the API server reports as deleted leaves the store, even while the watch is silent."""

import contextlib

import pytest

from agent.api.kinds import CONFIGMAPS
from agent.kube.client import Client
from agent.kube.contents import Vanished
from agent.kube.errors import NotFound
from agent.kube.informer import Informer
from agent.kube.store import Object, Store
from tests.kube.objects import obj
from tests.kube.relay import Relay
from tests.kube.watching import running
from tests.waiting import until


@pytest.mark.cluster
async def test_what_is_found_gone_leaves_the_store_at_once_and_late_news_do_not_bring_it_back(
    client: Client, relay: Relay, relayed: Client, namespace: str
) -> None:
    for name in ("gone", "stays", "another"):
        await client.create(CONFIGMAPS, {"metadata": {"name": name}}, namespace)
    informer = Informer(relayed, CONFIGMAPS, namespace)
    told: list[str] = []
    informer.subscribe(lambda old, new: told.append(old.name) if old is not None and new is None else None)
    async with running(informer):
        known = informer.store.get((namespace, "gone"))
        assert known is not None
        relay.breaks_watch = lambda path: path.endswith("configmaps")
        relay.break_streams()
        await until(lambda: informer.error is not None)
        # The watch reports it later: first a change, then the deletion.
        await client.patch(CONFIGMAPS, "gone", {"data": {"a": "b"}}, namespace)
        await client.delete(CONFIGMAPS, "gone", namespace)
        with contextlib.suppress(NotFound), informer.vanished.noticed(known.key, known.uid):
            await relayed.delete(CONFIGMAPS, "gone", namespace, uid=known.uid)
        assert told == ["gone"]
        assert informer.store.get(known.key) is None
        relay.breaks_watch = lambda path: False
        informer.interrupt()
        await client.create(CONFIGMAPS, {"metadata": {"name": "later"}}, namespace)
        await until(lambda: informer.store.get((namespace, "later")))
        assert told == ["gone"]
        # A recreated object of the same name is a different object.
        await client.create(CONFIGMAPS, {"metadata": {"name": "gone"}}, namespace)
        again = await until(lambda: informer.store.get(known.key))
        assert again.uid != known.uid


@pytest.mark.cluster
async def test_a_404_of_a_real_api_server_names_the_object_and_one_of_a_kind_names_none(
    client: Client, namespace: str
) -> None:
    with pytest.raises(NotFound) as found:
        await client.get(CONFIGMAPS, "missing", namespace)
    assert found.value.about == "missing"
    with pytest.raises(NotFound) as found:
        await client.session.request("GET", f"/api/v1/namespaces/{namespace}/nothings/missing")
    assert found.value.about == ""


@pytest.mark.parametrize(
    ("error", "uid", "stays"),
    [
        (NotFound(404, "NotFound", "", about="a"), "uid-a", False),
        (NotFound(404, "NotFound", "", about="a"), "another", True),
        (NotFound(404, "NotFound", "", about=""), "uid-a", True),
        (NotFound(404, "NotFound", "", about="b"), "uid-a", True),
    ],
    ids=["this very object", "another of that name", "the kind is not served", "another object"],
)
def test_only_an_answer_about_this_very_object_counts(error: NotFound, uid: str, *, stays: bool) -> None:
    store, dropped = Store(lambda obj, error: None), list[Object]()
    known = obj("a")
    store.put(known)
    vanished = Vanished(store, dropped.append)
    with pytest.raises(NotFound), vanished.noticed(known.key, uid):
        raise error
    assert dropped == ([] if stays else [known])
    assert (known in vanished) is not stays
    vanished.forget()
    assert known not in vanished
