"""Messages of CEL's library in the words of the reference."""

import pytest

from agent.ranking.placing.celmessages import as_reference

OF_LIBRARY = "ERROR: <input>:{line}:{column}: undeclared reference to '{chain}' (in container '')"


@pytest.mark.parametrize(
    ("expression", "line", "column", "chain", "want"),
    [
        pytest.param("a.b.c > 1", 1, 4, "a.b.c", "1:1: undeclared reference to 'a'", id="at its last dot"),
        pytest.param("x.a.b == a.b", 1, 11, "a.b", "1:10: undeclared reference to 'a'", id="the one that is meant"),
        pytest.param("a\n.\nb", 2, 1, "a.b", "1:1: undeclared reference to 'a'", id="on several lines"),
        pytest.param("ok", 7, 1, "a.b", "7:1: undeclared reference to 'a.b'", id="a line that is not there"),
        pytest.param("ok", 1, 1, "a.b", "1:1: undeclared reference to 'a.b'", id="a chain that is not there"),
        pytest.param("f.g", 1, 1, "f", "1:1: undeclared reference to 'f'", id="a name alone stays"),
    ],
)
def test_the_variable_is_named_where_it_stands(expression: str, line: int, column: int, chain: str, want: str) -> None:
    told = as_reference(OF_LIBRARY.format(line=line, column=column, chain=chain), expression)
    assert told == f"ERROR: <input>:{want} (in container '')"


def test_other_messages_stay() -> None:
    assert as_reference("ERROR: <input>:1:23: Syntax error", "a ==") == "ERROR: <input>:1:23: Syntax error"
