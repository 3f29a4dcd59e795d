"""Error of a soak."""


class SoakError(Exception):
    """The soak failed before it could be judged; the message contains the reason."""
