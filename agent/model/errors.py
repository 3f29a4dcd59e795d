"""Errors of the model."""


class InvalidPod(ValueError):
    """A pod that cannot be federated, with the field, and the reason with the remedy."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason
