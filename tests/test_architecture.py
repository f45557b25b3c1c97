"""The folder tree is the architecture: imports go one way, and machinery stays in its shells."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("decopa", "costmodel", "shuffler", "actors", "cluster")
#: Rooms from the bottom up: a module imports from its own room and from those before it. A package that has rooms also
#: has an entry of its own for the modules that stand in no room.
LAYERS = (
    "decopa.__version__", "decopa.errors", "decopa.choices", "decopa.documents", "decopa.files",
    "decopa.query", "decopa.language", "costmodel", "decopa.planning",
    "decopa.planning.network.graphs", "decopa.planning.network.problem", "decopa.planning.network.planners",
    "decopa.planning.network",
    "shuffler.rows", "shuffler.source", "shuffler.routing", "shuffler.exchange", "shuffler",
    "actors.columnar", "actors.operators", "actors.unit", "actors.group", "actors.state", "actors",
    "cluster", "cluster.measure", "cluster.checkpoint", "cluster.network", "cluster.change", "cluster.spark",
    "cluster.launch",
    "decopa.traces", "decopa.runs", "decopa.api", "decopa.report", "decopa.commands", "decopa",
)  # fmt: skip
#: Where Ray and Spark may be imported; everything else is tested in one process.
RAY_SHELLS = (
    "actors.ray_unit", "shuffler.exchange.ray_links", "shuffler.exchange.ray_metrics", "shuffler.exchange.ray_shell",
    "shuffler.exchange.ray_shuffler", "cluster",
)  # fmt: skip
SPARK_SHELLS = ("cluster.spark",)
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imported(path: Path) -> Iterator[str]:
    """Full names of what a file imports, inside functions, too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            # `from decopa import x` may name a module or a value of the package.
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def layer(name: str) -> int | None:
    """The place of a module in LAYERS, None for foreign ones; the most special entry counts."""
    fitting = [entry for entry in LAYERS if is_within(name, entry)]
    return LAYERS.index(max(fitting, key=len)) if fitting else None


def is_within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def test_there_is_something_to_check() -> None:
    assert {module_name(path).partition(".")[0] for path in MODULES} >= {"decopa", "shuffler", "actors", "cluster"}


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_imports_go_one_way(path: Path) -> None:
    own = layer(module_name(path))
    assert own is not None
    upward = [name for name in imported(path) if (other := layer(name)) is not None and other > own]
    assert upward == []


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_ray_and_spark_are_imported_only_by_their_shells(path: Path) -> None:
    name = module_name(path)
    foreign = {other.partition(".")[0] for other in imported(path)}
    if not any(is_within(name, shell) for shell in RAY_SHELLS):
        assert not foreign & {"ray", "raydp"}
    if not any(is_within(name, shell) for shell in SPARK_SHELLS):
        assert not foreign & {"pyspark"}


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_nothing_is_evaluated_or_unpickled(path: Path) -> None:
    assert not {name.partition(".")[0] for name in imported(path)} & {"pickle", "cloudpickle", "marshal", "dill"}
    called = {
        node.func.id
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not called & {"eval", "exec", "compile", "__import__"}


def test_the_builder_needs_nothing_but_the_query_language() -> None:
    rooms = ("decopa.query", "decopa.errors", "decopa.language.constants")
    for module in ("builder.py", "constants.py"):
        known = [name for name in imported(ROOT / "decopa" / "language" / module) if layer(name) is not None]
        assert all(any(is_within(name, room) for room in rooms) for name in known)
