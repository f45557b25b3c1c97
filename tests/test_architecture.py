"""The folder tree is the architecture: imports go one way, and machinery stays in its shells."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

THIS = Path(__file__).resolve()
ROOT = THIS.parents[1]
PACKAGES = ("decopa", "costmodel", "shuffler", "actors", "cluster")
#: Rooms from the bottom up: a module imports from its own room and from those before it. A package that has rooms also
#: has an entry of its own for the modules that stand in no room.
LAYERS = (
    "decopa.__version__", "decopa.errors", "decopa.choices", "decopa.documents", "decopa.files", "decopa.caches",
    "decopa.lean", "decopa.query", "decopa.language", "costmodel", "decopa.planning",
    "decopa.planning.network.graphs", "decopa.planning.network.problem", "decopa.planning.network.planners",
    "decopa.planning.network",
    "shuffler.rows", "shuffler.source", "shuffler.routing", "shuffler.exchange", "shuffler",
    "actors.columnar", "actors.operators", "actors.unit", "actors.group", "actors.state", "actors",
    "cluster.options", "cluster.deploy", "cluster", "cluster.measure", "cluster.checkpoint", "cluster.network",
    "cluster.change", "cluster.change.deployed", "cluster.change.rules", "cluster.spark", "cluster.launch",
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


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(path.read_text())))


@cache
def imported(path: Path) -> tuple[str, ...]:
    """Full names of what a file imports, inside functions, too."""
    found: list[str] = []
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            # `from decopa import x` may name a module or a value of the package.
            found += (f"{node.module}.{alias.name}" for alias in node.names)
    return tuple(found)


def layer(name: str) -> int | None:
    """The place of a module in LAYERS, None for foreign ones; the most special entry counts."""
    fitting = [entry for entry in LAYERS if is_within(name, entry)]
    return LAYERS.index(max(fitting, key=len)) if fitting else None


def is_within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def test_there_is_something_to_check() -> None:
    assert {module_name(path).partition(".")[0] for path in MODULES} >= {"decopa", "shuffler", "actors", "cluster"}


def test_imports_go_one_way() -> None:
    upward = []
    for path in MODULES:
        own = layer(module_name(path))
        assert own is not None, f"{path} stands in no room; name it in LAYERS"
        others = [(name, layer(name)) for name in imported(path)]
        upward += [f"{module_name(path)} -> {name}" for name, other in others if other is not None and other > own]
    assert upward == []


@pytest.mark.parametrize(
    ("shells", "machinery"), [(RAY_SHELLS, {"ray", "raydp"}), (SPARK_SHELLS, {"pyspark"})], ids=["ray", "spark"]
)
def test_ray_and_spark_are_imported_only_by_their_shells(shells: tuple[str, ...], machinery: set[str]) -> None:
    outside = [path for path in MODULES if not any(is_within(module_name(path), shell) for shell in shells)]
    assert [path for path in outside if {name.partition(".")[0] for name in imported(path)} & machinery] == []


def test_nothing_is_evaluated_or_unpickled() -> None:
    unpickling, evaluating = {"pickle", "cloudpickle", "marshal", "dill"}, {"eval", "exec", "compile", "__import__"}
    for path in MODULES:
        assert not {name.partition(".")[0] for name in imported(path)} & unpickling, path
        calls = (node.func for node in nodes(path) if isinstance(node, ast.Call))
        assert not {called.id for called in calls if isinstance(called, ast.Name)} & evaluating, path


@pytest.mark.parametrize(
    ("marker", "folders"),
    [("ray", ("cluster", "reliability")), ("spark", ("cluster/spark",)), ("launch", ("launch",))],
)
def test_tests_that_need_machinery_stand_where_ci_looks_for_them(marker: str, folders: tuple[str, ...]) -> None:
    """Every session of CI collects these folders only: looking through all tests takes it longer than many tests do."""
    tests = ROOT / "tests"
    marked = [path for path in tests.rglob("test_*.py") if f"mark.{marker}" in path.read_text() and path != THIS]
    assert marked
    assert [path for path in marked if not any(path.is_relative_to(tests / folder) for folder in folders)] == []
    command = (ROOT / "scripts" / "test").read_text()
    assert f'pytest {" ".join(f"tests/{folder}" for folder in folders)} -m "{marker} and not' in command


def test_the_builder_needs_nothing_but_the_query_language() -> None:
    rooms = ("decopa.query", "decopa.errors", "decopa.language.constants")
    for module in ("builder.py", "constants.py"):
        known = [name for name in imported(ROOT / "decopa" / "language" / module) if layer(name) is not None]
        assert all(any(is_within(name, room) for room in rooms) for name in known)
