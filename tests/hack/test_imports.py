"""Import rules that need the whole graph, in addition to the contracts of .importlinter."""

import ast
from collections.abc import Iterator

import grimp
import pytest

from hack.lab.sandbox.objects import REPOSITORY

_IO = frozenset(("asyncio", "aiohttp", "kubernetes_asyncio", "socket", "ssl", "subprocess", "threading"))
_IO_OF_THE_AGENT = ("agent.kube.client", "agent.kube.session", "agent.runtime.supervisor", "agent.clusters.target")


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    """Return all imports of the product and the lab, without those for type checkers alone."""
    packages = ("agent", "webhook", "hack")
    return grimp.build_graph(*packages, include_external_packages=True, exclude_type_checking_imports=True)


def _pure_modules() -> Iterator[str]:
    """Yield the modules outside of the contract's packages whose docstring says that they are pure."""
    for path in sorted(REPOSITORY.glob("agent/**/*.py")):
        text = ast.get_docstring(ast.parse(path.read_text())) or ""
        if "Pure" in text.partition("\n\n")[0].replace("pure", "Pure"):
            yield ".".join(path.relative_to(REPOSITORY).with_suffix("").parts).removesuffix(".__init__")


def test_modules_that_are_pure_import_nothing_that_does_io(graph: grimp.ImportGraph) -> None:
    found = {
        module: sorted(_IO & graph.find_modules_directly_imported_by(module))
        + [each for each in _IO_OF_THE_AGENT if each in graph.find_modules_directly_imported_by(module)]
        for module in _pure_modules()
    }
    assert len(found) > 100
    assert {module: imported for module, imported in found.items() if imported} == {}


def test_no_module_imports_itself_through_others(graph: grimp.ImportGraph) -> None:
    ours = [module for module in graph.modules if not graph.is_module_squashed(module)]
    left = {module: set(graph.find_modules_directly_imported_by(module)) for module in ours}
    while True:
        leaves = {module for module, imported in left.items() if not imported & left.keys()}
        if not leaves:
            break
        left = {module: imported for module, imported in left.items() if module not in leaves}
    assert sorted(left) == []
