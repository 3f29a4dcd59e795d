"""Fences: a source renews a Lease in a target, whose agent stops what is fenced by it when it sees no renewals."""
