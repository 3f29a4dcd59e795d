"""Targets that go: those that are cut off, and those that are to be emptied."""
