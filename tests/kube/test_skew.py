"""Clock difference between an API server and this process, computed from the dates of answers."""

import time
from email.utils import formatdate

import pytest

from agent.kube.config import Connection
from agent.kube.session import Session
from tests.kube.pretending import KIND, Pretender


@pytest.mark.parametrize("ahead", [0.0, 300.0, -3600.0])
async def test_an_answer_says_how_far_a_clock_is_ahead(ahead: float) -> None:
    async with Pretender.started() as server:
        server.date = formatdate(time.time() + ahead, usegmt=True)
        await server.client.version(KIND)
        # `Date` headers have a resolution of one second.
        assert abs(server.client.session.skew - ahead) < 2


@pytest.mark.parametrize("date", ["", "yesterday", "Mon, 99 Nov 2026 08:09:55 GMT"])
async def test_a_date_that_nobody_can_read_says_nothing(date: str) -> None:
    async with Session(Connection("http://127.0.0.1:1")) as session:
        session.date = date
        assert session.skew == 0.0
