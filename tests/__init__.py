"""All tests. Assertions in their helpers show values on failure, as assertions in tests do."""

import pkgutil

import pytest

pytest.register_assert_rewrite(*(f"{__name__}.{each.name}" for each in pkgutil.iter_modules(__path__)))
