"""Error of a benchmark."""


class BenchError(Exception):
    """The benchmark failed; the message contains the reason."""
