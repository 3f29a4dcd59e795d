"""How many examples Hypothesis tries: a fifth in `hack/test`, all in `hack/test --all`."""

import pytest
from hypothesis import settings

EXAMPLES = 100
"""Of a test that does not say otherwise, in `hack/test --all`."""


def examples(count: int) -> int:
    """How many of so many examples this run tries."""
    return count * settings.default.max_examples // EXAMPLES


def seeds(count: int) -> list[object]:
    """Parameters of a test that draws its examples from a seed: a fifth of them in `hack/test`, all with `--all`."""
    return [seed if seed < count // 5 else pytest.param(seed, marks=pytest.mark.seldom) for seed in range(count)]
