"""Mode `reserve` between real clusters, with lost or slow requests and replies at every step."""

import pytest

from agent.api import names
from agent.api.kinds import CHAPERONS, PODS
from tests.scheduler.reserving import Open, Stage, first_of_each
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

PODS_AT_ONCE = [f"web-{number}" for number in range(4)]


@pytest.mark.parametrize(
    ("method", "part"),
    [
        pytest.param("PATCH", "/pods/", id="the claim"),
        pytest.param("POST", "/binding", id="the binding"),
    ],
)
async def test_a_reply_of_our_own_api_server_that_is_lost_changes_nothing(opened: Open, method: str, part: str) -> None:
    async with opened() as at:
        lost: set[str] = set()
        at.near.lose_reply = first_of_each(method, part, lost)
        await at.pods(*PODS_AT_ONCE)
        await at.settled(len(PODS_AT_ONCE))
        assert len(lost) >= len(PODS_AT_ONCE)


@pytest.mark.parametrize(
    ("method", "part"),
    [
        pytest.param("POST", "/podchaperons", id="candidates"),
        pytest.param("PATCH", "/podchaperons/", id="leave"),
        pytest.param("DELETE", "/podchaperons/", id="deletes of losers"),
    ],
)
async def test_replies_of_both_targets_that_are_lost_change_nothing(opened: Open, method: str, part: str) -> None:
    async with opened() as at:
        lost: set[str] = set()
        count = 0

        def every_other(asked: str, path: str) -> bool:
            nonlocal count
            count += asked == method and part in path
            hit = asked == method and part in path and count % 2 == 1
            if hit:
                lost.add(f"{count}")
            return hit

        for relay in at.relays.values():
            relay.lose_reply = every_other
        await at.pods(*PODS_AT_ONCE)
        await at.settled(len(PODS_AT_ONCE))
        assert lost


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
@pytest.mark.parametrize(
    ("method", "part"),
    [
        pytest.param("POST", "/podchaperons", id="candidates"),
        pytest.param("PATCH", "/podchaperons/", id="leave"),
        pytest.param("DELETE", "/podchaperons/", id="deletes of losers", marks=pytest.mark.seldom),
    ],
)
async def test_a_target_that_falls_silent_at_a_step_holds_only_the_pods_it_was_promised(
    opened: Open, method: str, part: str
) -> None:
    async with opened() as at:
        at.relays["us"].freeze(lambda asked, path: asked == method and part in path)
        await at.pods(*PODS_AT_ONCE)

        async def others_run() -> bool:
            pods = await at.proxies()
            us = at.targets["us"].node_name
            left = [pod for pod in pods if pod["status"].get("phase") != "Running"]
            claims = [pod["metadata"]["annotations"].get(names.ANNOTATION_CLAIM) for pod in left]
            # If a busy machine slows down eu, all of them may have been promised to us.
            return len(pods) == len(PODS_AT_ONCE) and all(claim == us for claim in claims)

        await until(others_run)
        at.relays["us"].mend()
        await at.settled(len(PODS_AT_ONCE))


async def test_with_a_bound_of_one_a_pod_has_one_candidate_where_nothing_refuses_it(opened: Open) -> None:
    async with opened(reserve_candidates=1) as at:
        sent = 0

        def count(asked: str, path: str) -> bool:
            nonlocal sent
            sent += asked == "POST" and "/podchaperons" in path
            return False

        for relay in at.relays.values():
            relay.lose_reply = count
        await at.pods(*PODS_AT_ONCE)
        await at.settled(len(PODS_AT_ONCE))
        assert sent == len(PODS_AT_ONCE)


async def test_a_black_hole_costs_pods_that_can_go_elsewhere_nothing(opened: Open) -> None:
    async with opened() as at:
        at.relays["us"].freeze()
        at.relays["us"].break_streams()
        await at.pods(*PODS_AT_ONCE)
        where = await at.run(len(PODS_AT_ONCE))
        assert set(where.values()) == {"eu"}
        at.relays["us"].mend()
        await at.settled(len(PODS_AT_ONCE))


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_a_target_that_takes_long_for_each_answer_gets_none_of_the_pods_once_that_is_known(
    opened: Open,
) -> None:
    async with opened(slow_target=0.5, request_timeout=15.0) as at:
        at.relays["us"].delay(3.0)
        await until(lambda: _slow(at))
        await at.pods(*PODS_AT_ONCE)
        where = await at.run(len(PODS_AT_ONCE))
        assert set(where.values()) == {"eu"}
        at.relays["us"].delay(0.0)
        await at.settled(len(PODS_AT_ONCE))


async def _slow(at: Stage) -> bool:
    """Return whether the target counts as slow compared with the source, after one request to each."""
    us = at.targets["us"]
    await at.deps.local.client.list_raw(PODS, at.namespace)
    await us.cluster.client.list_raw(CHAPERONS, at.namespace)
    return us.slow


@pytest.mark.seldom
async def test_leave_that_hangs_in_one_target_does_not_keep_workers_from_pods_of_the_other(opened: Open) -> None:
    many = [f"web-{number}" for number in range(16)]
    async with opened(max_in_flight=4, request_timeout=20.0) as at:
        at.relays["us"].freeze(lambda asked, path: asked == "PATCH" and "/podchaperons/" in path)
        await at.pods(*many)
        node = at.targets["us"].node_name

        async def others_run() -> bool:
            pods = await at.proxies()
            elsewhere = [pod for pod in pods if pod["metadata"]["annotations"].get(names.ANNOTATION_CLAIM) != node]
            ran = all(pod["status"].get("phase") == "Running" for pod in elsewhere)
            return len(pods) == len(many) and ran

        await until(others_run)
        assert at.targets["us"].ready
        at.relays["us"].mend()
        await at.settled(len(many))


async def test_a_pod_that_others_write_to_all_the_time_is_placed_all_the_same(opened: Open) -> None:
    async with opened() as at:
        await at.pod("web")
        for number in range(30):
            body = {"metadata": {"annotations": {"example.com/count": str(number)}}}
            await at.client.patch(PODS, "web", body, at.namespace)
        await at.settled(1)


async def test_a_pod_deleted_while_its_candidates_are_on_their_way_leaves_none(opened: Open) -> None:
    async with opened() as at:
        for relay in at.relays.values():
            relay.freeze(lambda asked, path: asked == "POST")
        await at.pods(*PODS_AT_ONCE)

        async def asked() -> bool:
            return any(method == "POST" for method, _ in at.relays["us"].requests)

        await until(asked)
        await at.delete(*PODS_AT_ONCE)
        for relay in at.relays.values():
            relay.mend()
        await at.empty()


async def test_a_pod_deleted_while_its_candidates_are_reserved_leaves_none(opened: Open) -> None:
    async with opened() as at:
        # The write of the claim fails.
        at.near.freeze(lambda asked, path: asked == "PATCH" and "/pods/" in path)
        await at.pods(*PODS_AT_ONCE)
        await at.candidates(2 * len(PODS_AT_ONCE), reserved=True)
        await at.delete(*PODS_AT_ONCE)
        at.near.mend()
        at.near.break_streams()
        await at.empty()


async def test_the_pods_annotation_decides_before_its_namespaces_before_the_setting(opened: Open) -> None:
    async with opened(scheduling="ranked") as at:
        key = names.SHORT_PREFIX + names.SCHEDULING
        await at.pod("by-setting")
        await at.pod("by-pod", annotations={key: "reserve"})
        await at.pod("by-admiralty", annotations={names.PREFIX + names.NO_RESERVATION: "", key: "reserve"})
        await at.settled(3)
        claimed = {
            pod["metadata"]["name"]
            for pod in await at.proxies()
            if names.ANNOTATION_CLAIM_UID in pod["metadata"]["annotations"]
        }
        assert claimed == {"by-pod", "by-admiralty"}
