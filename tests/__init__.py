"""All tests; assertions of their helpers show their values when they fail, as those of tests do."""

import pkgutil

import pytest

pytest.register_assert_rewrite(*(f"{__name__}.{each.name}" for each in pkgutil.iter_modules(__path__)))
