import json
import logging
from collections.abc import Iterator

import pytest

from agent.base.log import change_detail, configure, context


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Restore the logging configuration for other tests."""
    root = logging.getLogger()
    before = (root.handlers[:], root.level, {name: logging.getLogger(name).level for name in ("agent", "webhook")})
    yield
    root.handlers[:], level, levels = before
    root.setLevel(level)
    for name, value in levels.items():
        logging.getLogger(name).setLevel(value)


def test_a_line_of_text_carries_level_logger_message_and_the_fields_of_its_context(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure("INFO")
    with context(controller="feedback"), context(key="default/web"):
        logging.getLogger("agent.room").warning("%s went wrong", "this")
    line = capsys.readouterr().err
    assert "W agent.room: this went wrong controller=feedback key=default/web" in line


def test_a_context_ends_with_its_block(capsys: pytest.CaptureFixture[str]) -> None:
    configure("INFO")
    with context(key="inner"):
        pass
    logging.getLogger("agent").info("after")
    assert "inner" not in capsys.readouterr().err


def test_json_lines_hold_the_same_and_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    configure("debug", as_json=True)
    try:
        raise ValueError("bad")
    except ValueError:
        with context(key="a/b"):
            logging.getLogger("webhook").exception("failed")
    entry = json.loads(capsys.readouterr().err)
    assert (entry["level"], entry["logger"], entry["message"], entry["key"]) == ("error", "webhook", "failed", "a/b")
    assert "ValueError: bad" in entry["exception"]


def test_libraries_that_log_bodies_at_debug_stay_silent_even_when_we_do_not(capsys: pytest.CaptureFixture[str]) -> None:
    configure("DEBUG")
    logging.getLogger("kubernetes_asyncio.client.rest").debug("response body: secret")
    logging.getLogger("agent").debug("ours")
    assert "secret" not in (told := capsys.readouterr().err)
    assert "ours" in told


def test_json_lines_say_which_cluster_they_are_of(capsys: pytest.CaptureFixture[str]) -> None:
    configure("INFO", as_json=True, cluster="eu", other="")
    logging.getLogger("agent").info("ready")
    entry = json.loads(capsys.readouterr().err)
    assert entry["cluster"] == "eu"
    assert "other" not in entry


def test_more_detail_is_told_until_less_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    configure("WARNING")
    told = []
    for more in (True, False):
        change_detail(more=more)
        logging.getLogger("agent.room").debug("a detail")
        told.append(capsys.readouterr().err)
    assert "log level is DEBUG" in told[0]
    assert "a detail" in told[0]
    assert "log level is WARNING" in told[1]
    assert "a detail" not in told[1]
