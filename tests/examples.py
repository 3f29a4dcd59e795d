"""How many examples Hypothesis tries: a fifth in `hack/test`, all in `hack/test --all`."""

from hypothesis import settings

EXAMPLES = 100
"""Of a test that does not say otherwise, in `hack/test --all`."""


def examples(count: int) -> int:
    """How many of so many examples this run tries."""
    return count * settings.default.max_examples // EXAMPLES
