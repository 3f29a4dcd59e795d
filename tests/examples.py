"""Number of Hypothesis examples: a fifth in `hack/test`, all in `hack/test --all`."""

import pytest
from hypothesis import settings

EXAMPLES = 100
"""Default number of examples of a test, in `hack/test --all`."""


def examples(count: int) -> int:
    """Return how many of `count` examples this run tries."""
    return count * settings.default.max_examples // EXAMPLES


def seeds(count: int) -> list[object]:
    """Return the seeds of a test that draws its examples from a seed: a fifth in `hack/test`, all with `--all`."""
    return [seed if seed < count // 5 else pytest.param(seed, marks=pytest.mark.seldom) for seed in range(count)]
