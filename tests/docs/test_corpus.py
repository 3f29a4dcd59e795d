"""The page about the corpus lists the manifests with differing results, and the reasons."""

from hack.lab.corpus.expected import EXPECTED
from hack.lab.corpus.files import OWN, read
from tests.docs.pages import DOCS, tables

PAGE = DOCS / "contribute/corpus.md"


def test_what_comes_out_otherwise_is_documented_with_its_reason() -> None:
    (rows,) = (table[1:] for table in tables(PAGE.read_text()) if table[0][0] == "manifest")
    assert {row[0].strip("`"): row[1] for row in rows} == EXPECTED


def test_how_many_are_alike_is_what_remains() -> None:
    files = read(OWN)
    assert f"**{len(files) - len(EXPECTED)} of {len(files)} are alike**" in PAGE.read_text()
