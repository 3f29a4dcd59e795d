"""When a watch last heard of its API server, and since when it cannot be read. Seconds of the monotonic clock."""

import time


class Hearing:
    """Of one watch, which begins now."""

    def __init__(self) -> None:
        self.heard = time.monotonic()
        """When an event or a bookmark came, part of a list, or leave to begin or to go on."""
        self.stirred = self.heard
        """When anything happened, failures too."""
        self.failing_since: float | None = None
        """The first failure after which it has not worked again."""

    def word(self) -> None:
        """The API server has said something."""
        self.heard = self.stirred = time.monotonic()

    def well(self) -> None:
        """The watch works."""
        self.word()
        self.failing_since = None

    def failed(self) -> None:
        """It has failed."""
        self.stirred = time.monotonic()
        if self.failing_since is None:
            self.failing_since = self.stirred

    def turned(self) -> None:
        """Another try begins, or the same watch goes on."""
        self.stirred = time.monotonic()
