"""Manifests of the corpus that come out otherwise, and why; docs/corpus.md has the same table."""

EXPECTED: dict[str, str] = {}
"""By file. What is alike all the same has no place here."""
