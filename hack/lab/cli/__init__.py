"""Verbs of `flotilla` that only a checkout has: one file per verb."""
