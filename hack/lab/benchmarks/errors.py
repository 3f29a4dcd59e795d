"""What ends a benchmark without a result."""


class BenchError(Exception):
    """The benchmark cannot be finished; the message says what to look at."""
