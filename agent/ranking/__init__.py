"""Choosing targets: snapshot -> filter -> score -> decision with reasons. Pure and synchronous, no I/O."""
