"""How a command ends, and what it says when it fails."""

import pytest
import typer

from agent.cli.options import Failed, finish, told
from agent.cli.output import as_table
from agent.kube.errors import Forbidden, InvalidConfig, Unauthorized, Unreachable


async def fail(error: Exception) -> None:
    raise error


async def give() -> str:
    return "done"


def test_what_the_work_gives_is_given() -> None:
    assert finish(give()) == "done"


@pytest.mark.parametrize("error", [Failed("no pod x"), InvalidConfig("no kubeconfig at /x")])
def test_a_failure_is_one_line_on_standard_error_and_status_1(
    error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended:
        finish(fail(error))
    assert ended.value.exit_code == 1
    written = capsys.readouterr()
    assert (written.out, written.err) == ("", f"flotilla: {error}\n")


def test_what_an_api_server_refuses_comes_with_a_remedy() -> None:
    assert "renew them" in told(Unauthorized(401, "Unauthorized", "Unauthorized"))
    right = 'secrets is forbidden: User "x" cannot create resource "secrets"'
    assert told(Forbidden(403, "Forbidden", right), "context cd") == (
        f"context cd does not let you: {right}; ask its administrator for this right, or choose another user"
    )
    assert "check the server's address" in told(Unreachable("no answer within 3 s"))


def test_a_plain_table_has_columns_and_no_blanks_at_the_ends_of_lines() -> None:
    assert as_table((["A", "LONG"], [["long", "b"], ["c", ""]]), terminal=False) == "A     LONG\nlong  b\nc"
