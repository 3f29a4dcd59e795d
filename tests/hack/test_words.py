"""Words of docstrings: a noun or a verb first, no long sentences, no expressions with a plainer one."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.lab.sandbox.objects import REPOSITORY
from tests.syntax import parsed

FOLDERS = ("agent", "webhook", "hack/lab", "tests")
FIRST = re.compile(r"(?:What|Those|That|Whoever|Who|It|The same|Where|How)\b")
"""First words that name neither a thing nor an action."""
PLAINER = {
    r"(?<!`)\banew\b": "again, or recreated",
    r"\b(?:any|(?:is|are|be|needed|there) no) more\b(?! than)": "no longer",
    r"\bin vain\b": "unnecessarily, or name what fails",
    r"\b(?:whoever|somebody|nobody)\b": "the actor: the API server, the kubelet, the user, the leader",
    r"\bcomes? home\b": "is copied to the proxy pod",
    r"\brooms?\b(?= (?:that|write|read|meet))": "controller",
}
"""Patterns, with what to write instead."""
WORDS = 30
"""Most words of a sentence."""

FILES = [file for folder in FOLDERS for file in sorted((REPOSITORY / folder).rglob("*.py"))]


def texts(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the docstrings of a file with their lines, those below attributes included."""
    for node in ast.walk(parsed(file)):
        body = getattr(node, "body", None)
        for each in body if isinstance(body, list) else ():
            if (
                isinstance(each, ast.Expr)
                and isinstance(each.value, ast.Constant)
                and isinstance(each.value.value, str)
            ):
                yield each.lineno, each.value.value


def flaws(text: str) -> Iterator[str]:
    """Yield what a reader would have to read twice."""
    if FIRST.match(text.lstrip()):
        yield f"begins with {text.split()[0]!r}: begin with a noun, or a verb in the imperative"
    for pattern, instead in PLAINER.items():
        if found := re.search(pattern, text):
            yield f"{found[0]!r}: write {instead}"
    prose = [
        paragraph for paragraph in re.split(r"\n\s*\n", text) if "|" not in paragraph and "  " not in paragraph.strip()
    ]
    for paragraph in prose:
        for sentence in re.split(r"(?<=[.!?:;])\s", paragraph):
            if len(sentence.split()) > WORDS:
                yield f"a sentence of {len(sentence.split())} words, more than {WORDS}: {sentence[:60]}"


def test_docstrings_can_be_read_at_once() -> None:
    found = [
        f"{file.relative_to(REPOSITORY)}:{line} {flaw}"
        for file in FILES
        for line, text in texts(file)
        for flaw in flaws(text)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "flawed"),
    [
        ("Return the targets of a pod.", False),
        ("What a pod waits for.", True),
        ("Delete a copy that is needed no more.", True),
        ("Requests no more than ten objects.", False),
        ("Note it. " + "word " * 31, True),
        ("Wake whoever waits.", True),
    ],
)
def test_a_flaw_is_found(text: str, flawed: bool) -> None:
    assert bool(list(flaws(text))) is flawed
