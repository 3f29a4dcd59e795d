"""What the model refuses."""


class InvalidPod(ValueError):
    """A pod we cannot federate: which field, and why with what to do about it."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason
