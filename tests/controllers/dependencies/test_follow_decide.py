"""The next step for one object in one target."""

from typing import Any

import pytest

from agent.dependencies.follow.decide import Compare, Create, OriginalAndCopy, Remove, RemoveOrphan, Rest, Step, decide


def view(**given: Any) -> OriginalAndCopy:
    usual = {"original": "7", "copy": "3", "agreed": ("7", "3"), "needed": True, "idle": 0.0, "linger": 10.0}
    return OriginalAndCopy(**{**usual, **given})


CASES = [
    pytest.param({}, Rest(), id="a copy that agrees is left alone"),
    pytest.param({"copy": None}, Create(), id="what is needed and not there is created"),
    pytest.param({"copy": None, "original": None}, Create(), id="what our store does not have is asked for"),
    pytest.param({"copy": None, "agreed": ("7", "")}, Rest(), id="what needs no copy is not tried again"),
    pytest.param({"copy": None, "agreed": ("6", "")}, Create(), id="what needed no copy and changed is looked at"),
    pytest.param({"original": "8"}, Compare(), id="a changed original is compared"),
    pytest.param({"copy": "4"}, Compare(), id="a changed copy is compared"),
    pytest.param({"agreed": None}, Compare(), id="after a restart both are compared"),
    pytest.param({"original": None}, RemoveOrphan(), id="without its original a copy goes"),
    pytest.param({"original": None, "needed": False}, RemoveOrphan(), id="without its original it goes at once"),
    pytest.param({"needed": False, "idle": 4.0}, Rest(6.0), id="what nobody needs stays a while"),
    pytest.param({"needed": False, "idle": 10.0}, Remove(), id="then it goes"),
    pytest.param({"needed": False, "linger": 0.0}, Remove(), id="at once where its target is being removed"),
    pytest.param({"needed": False, "copy": None}, Rest(), id="what nobody needs is not created"),
]


@pytest.mark.parametrize(("given", "want"), CASES)
def test_step(given: dict[str, Any], want: Step) -> None:
    assert decide(view(**given)) == want
