"""Tests, whose helpers say what values an assertion of theirs had, as the tests themselves do."""

import pkgutil

import pytest

pytest.register_assert_rewrite(*(f"{__name__}.{each.name}" for each in pkgutil.iter_modules(__path__)))
