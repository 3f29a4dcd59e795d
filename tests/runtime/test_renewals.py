"""Renewals of a lease that are under way at the same time."""

import datetime

from agent.runtime.renewals import Found, Mark, Moment, Renewals, renewal


def at(seconds: float) -> Moment:
    return Moment(seconds, datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=seconds))


def found(*marks: Mark) -> Found:
    """Return the state that the last of these writes has left."""
    return Found("me", marks[-1].renewed, {mark.annotation: mark.renewed for mark in marks})


def leading() -> Renewals:
    """Return the renewals of a leader whose last one, called "zero", was confirmed."""
    renewals = Renewals("me", at(0))
    zero = renewals.next("zero")
    renewals.sent(zero, None, at(0))
    renewals.written(zero)
    return renewals


def send(renewals: Renewals, seconds: float, name: str) -> Mark:
    mark = renewals.next(name)
    renewals.sent(mark, renewals.base, at(seconds))
    return mark


def test_an_answered_renewal_counts_from_when_it_was_sent() -> None:
    renewals = leading()
    one = send(renewals, 1, "one")
    assert renewals.moment == at(0)
    assert (renewals.latest, renewals.pending) == (at(1), True)
    renewals.written(one)
    assert (renewals.moment, renewals.base, renewals.pending) == (at(1), one, False)


def test_a_renewal_tests_for_the_last_confirmed_one_however_many_have_no_answer_or_have_failed() -> None:
    renewals = leading()
    zero = renewals.base
    one, two, three = (send(renewals, number, name) for number, name in enumerate(("one", "two", "three"), 1))
    assert renewals.base == zero
    renewals.failed(one)
    assert renewals.base == zero
    renewals.written(three)
    assert (renewals.base, renewals.moment) == (three, at(3))
    renewals.written(two)
    assert renewals.moment == at(3), "an answer that comes late takes nothing back"


def test_marks_that_are_tested_for_are_not_overwritten() -> None:
    renewals = leading()
    marks = [send(renewals, number, str(number)) for number in range(3)]
    renewals.written(marks[1])
    marks.append(send(renewals, 4, "4"))
    assert len({mark.slot for mark in marks} | {0}) == 5, "two of them test for the first one still"
    for mark in marks:
        renewals.written(mark)
    assert renewals.next("5").slot == 0


def test_the_first_renewals_test_for_the_write_that_takes_the_lease() -> None:
    renewals = Renewals("me", at(0))
    assert renewals.base is None
    renewals.rebase(Found("other", "long ago"))
    taking = renewals.next("taking")
    renewals.sent(taking, None, at(1))
    assert renewals.base == taking
    send(renewals, 2, "one")
    assert renewals.base == taking
    assert renewals.seen(Found("other", "long ago"), at(3))
    renewals.written(taking)
    assert renewals.moment == at(3)


def test_a_renewal_that_a_later_read_does_not_show_counts_from_that_read() -> None:
    renewals = leading()
    zero = renewals.base
    assert zero is not None
    one = send(renewals, 1, "one")
    assert renewals.seen(found(zero), at(5))
    assert renewals.moment == at(0), "nothing has been written yet"
    renewals.written(one)
    assert renewals.moment == at(5)


def test_a_read_that_shows_a_renewal_confirms_it_and_those_before_it_stay_as_they_were() -> None:
    renewals = leading()
    zero = renewals.base
    assert zero is not None
    one, two, three = (send(renewals, number, name) for number, name in enumerate(("one", "two", "three"), 1))
    assert renewals.seen(found(zero, two), at(7))
    assert (renewals.moment, renewals.base) == (at(2), two)
    renewals.written(one)
    renewals.written(three)
    assert renewals.moment == at(7)


def test_a_read_that_shows_a_write_of_unknown_outcome_proves_nothing_of_others() -> None:
    """Another request of this holder has been written since, and it may be the last one."""
    renewals = leading()
    zero = renewals.base
    assert zero is not None
    lost = send(renewals, 1, "lost")
    renewals.failed(lost)
    one = send(renewals, 2, "one")
    assert one.slot != lost.slot
    assert renewals.seen(found(zero, lost), at(7))
    renewals.written(one)
    assert renewals.moment == at(2)


def test_the_slot_of_a_failed_write_is_free_once_the_mark_that_it_tests_for_is_overwritten() -> None:
    renewals = leading()
    failed = send(renewals, 1, "failed")
    renewals.failed(failed)
    one = send(renewals, 2, "one")
    renewals.written(one)
    two = send(renewals, 3, "two")
    assert (failed.slot, one.slot, two.slot) == (1, 2, 0)
    assert renewals.next("three").slot == 3, "the failed one may be written before the second one is"
    renewals.written(two)
    assert renewals.next("three").slot == 1


def test_a_state_that_is_older_than_the_confirmed_one_or_of_another_holder_is_not_known() -> None:
    renewals = leading()
    zero = renewals.base
    assert zero is not None
    one = send(renewals, 1, "one")
    renewals.written(one)
    send(renewals, 2, "two")
    assert not renewals.seen(found(zero), at(3)), "as from a backup"
    assert not renewals.seen(found(zero, one)._replace(holder="usurper"), at(3))
    assert renewals.seen(found(zero, one), at(3))


def test_a_patch_tests_for_the_holder_and_one_mark_and_leaves_another() -> None:
    patch = renewal("me", Mark(0, "zero"), Mark(1, "one"), 12)
    assert patch[:2] == [
        {"op": "test", "path": "/spec/holderIdentity", "value": "me"},
        {"op": "test", "path": "/metadata/annotations/multicluster~1renewal-0", "value": "zero"},
    ]
    assert patch[-1] == {"op": "add", "path": "/metadata/annotations/multicluster~1renewal-1", "value": "one"}
