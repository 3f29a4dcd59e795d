"""Chaperon -> proxy pod: what happened to a delegate comes home."""
