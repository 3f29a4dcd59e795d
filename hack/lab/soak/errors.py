"""What ends a soak before it can be judged."""


class SoakError(Exception):
    """The soak could not be done; the message says why."""
