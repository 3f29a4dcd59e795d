"""Fences: a source renews a Lease in a target, whose agent stops the fenced pods when renewals stop."""
