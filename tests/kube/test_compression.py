"""Large objects that have not changed for a while take less memory and keep their content."""

import asyncio
import hashlib
from typing import Any

import msgspec
import pytest

from agent.api.kinds import PODS
from agent.kube.client import Client
from agent.kube.compression import PACK_SECONDS, TRIM_PAUSE_SECONDS, Trimmer
from agent.kube.config import Connection
from agent.kube.informer import Informer
from agent.kube.session import Session
from agent.kube.store import Object


def pod(name: str, version: int, **spec: Any) -> bytes:
    metadata = {"name": name, "namespace": "default", "uid": name, "resourceVersion": f"{version}"}
    containers = [{"name": f"c{number}", "image": "registry.example/team/image:1"} for number in range(50)]
    return msgspec.json.encode({"metadata": metadata, "spec": {"containers": containers, **spec}})


def test_a_packed_object_says_the_same_and_is_packed_once() -> None:
    plain, packed = Object(PODS, pod("web", 1)), Object(PODS, pod("web", 1))
    assert plain.is_large
    packed.pack()
    packed.pack()
    assert not packed.is_large
    assert (packed.raw, packed.decode(), packed.annotations) == (plain.raw, plain.decode(), plain.annotations)
    assert (packed.key, packed.uid, packed.version) == (plain.key, plain.uid, plain.version)


def test_what_objects_have_in_common_is_kept_once() -> None:
    alone, beside = Object(PODS, pod("web", 1)), Object(PODS, pod("web", 1))
    like = pod("other", 7, nodeName="n1")
    assert beside.pack(like) < alone.pack() / 2
    assert (beside.raw, beside.decode()) == (alone.raw, alone.decode())


def test_packing_a_small_object_changes_nothing() -> None:
    small = Object(PODS, b'{"metadata":{"name":"a"}}')
    small.pack()
    assert (small.is_large, small.raw) == (False, b'{"metadata":{"name":"a"}}')


@pytest.mark.looptime
async def test_what_has_not_changed_for_a_while_is_packed_and_nothing_else() -> None:
    async with Session(Connection("http://127.0.0.1:1")) as session:
        informer = Informer(Client(session), PODS)
        informer.synced.set()
        for number in range(120):
            informer.absorb(pod(f"p{number}", number + 1))
        await asyncio.sleep(PACK_SECONDS - 1)
        assert all(each.is_large for each in informer.store)
        informer.absorb(pod("p7", 1000, nodeName="n1"))
        await asyncio.sleep(2)
        assert {each.name for each in informer.store if each.is_large} == {"p7"}
        await asyncio.sleep(PACK_SECONDS)
        assert not any(each.is_large for each in informer.store)
        packed = informer.store.get(("default", "p7"))
        assert packed is not None
        assert packed.raw == pod("p7", 1000, nodeName="n1")


@pytest.mark.looptime
async def test_objects_of_several_kinds_of_pods_are_packed_and_read_as_they_are() -> None:
    async with Session(Connection("http://127.0.0.1:1")) as session:
        informer = Informer(Client(session), PODS)
        informer.synced.set()
        wanted = {}
        for number in range(400):
            volumes = [{"name": hashlib.sha256(b"%d/%d" % (number % 3, each)).hexdigest()} for each in range(60)]
            huge = {"args": ["x" * 40_000]} if number == 200 else {}
            wanted[f"p{number}"] = pod(f"p{number}", number + 1, volumes=volumes, **huge)
            informer.absorb(wanted[f"p{number}"])
        await asyncio.sleep(3 * PACK_SECONDS)
        assert not any(each.is_large for each in informer.store)
        assert {each.name: each.raw for each in informer.store} == wanted


@pytest.mark.looptime
async def test_free_memory_is_looked_for_once_in_a_while_and_what_was_put_off_is_made_up_for() -> None:
    loop = asyncio.get_running_loop()
    times: list[float] = []

    def trim(pad: int) -> int:
        times.append(loop.time() + pad)
        return 1

    trimmer, began = Trimmer(trim, now=loop.time), loop.time()
    for pause in (1.0, 1.0, 3 * TRIM_PAUSE_SECONDS, 0.0):
        trimmer.trim()
        await asyncio.sleep(pause)
    assert [time - began for time in times] == [0.0, TRIM_PAUSE_SECONDS, 3 * TRIM_PAUSE_SECONDS + 2]
