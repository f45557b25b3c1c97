"""What the documentation shows is executed (README, the notebook, docstrings), or at least read by what would execute
it: every command line by the parser, every Python snippet against the names and parameters that there are."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import decopa
from decopa.commands.cli import make_parser
from decopa.errors import DecoPaError

ROOT = Path(__file__).resolve().parents[1]


def test_the_readme_shows_what_its_example_prints(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)[:1]
    exec(compile(example, "README.md", "exec"), {})
    (shown,) = re.findall(r"^# (\[.*\])$", example, re.MULTILINE)
    assert capsys.readouterr().out.strip() == shown


def test_the_notebook_runs_from_its_first_cell_to_its_last() -> None:
    notebook = json.loads((ROOT / "docs" / "examples" / "first_steps.ipynb").read_text(encoding="utf-8"))
    names: dict[str, object] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            source = "".join(cell["source"])
            *lines, last = source.rstrip().splitlines()
            exec(compile("\n".join(lines), cell["id"], "exec"), names)
            try:
                value = eval(compile(last, cell["id"], "eval"), names)
            except SyntaxError:
                exec(compile(last, cell["id"], "exec"), names)
            else:
                assert value is not False


PACKAGES = ("decopa", "actors", "shuffler", "costmodel", "cluster")
WITH_EXAMPLES = sorted(
    path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_in_docstrings_are_right(name: str) -> None:
    found = doctest.testmod(importlib.import_module(name))
    assert (found.failed, found.attempted > 0) == (0, True)


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a page in a language; "" for those that name none."""
    found = re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [text for name, text in found if name == language]


def command_lines(page: Path) -> list[str]:
    """Calls of decopa in the page's blocks, without what comes before and after them in a pipe."""
    found = []
    for block in [*blocks(page, ""), *blocks(page, "bash"), *blocks(page, "sh")]:
        for line in block.replace("\\\n", " ").splitlines():
            for part in re.split(r"[|;]|&&", re.sub(r"\s#.*", "", line)):
                if part.strip().startswith("decopa "):
                    found.append(part.strip())
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_command_lines_in_documents_are_accepted(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parser = make_parser()
    for line in command_lines(page):
        if "..." in line or "--help" in line:
            continue
        try:
            parser.parse_args(shlex.split(line)[1:])
        except (DecoPaError, SystemExit) as err:
            pytest.fail(f"{page.name}: {line}: {err} {capsys.readouterr().err}")


def test_there_are_command_lines_to_read() -> None:
    assert sum(len(command_lines(page)) for page in PAGES) > 30


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_in_documents_names_what_there_is(page: Path) -> None:
    for block in blocks(page, "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in PACKAGES:
                module = importlib.import_module(node.module)
                assert [one.name for one in node.names if not hasattr(module, one.name)] == []
            if isinstance(node, ast.Call) and re.fullmatch(r"decopa(\.\w+)+", ast.unparse(node.func)):
                called: Any = decopa
                for name in ast.unparse(node.func).split(".")[1:]:
                    called = getattr(called, name)
                known = inspect.signature(called).parameters
                assert [one.arg for one in node.keywords if one.arg and one.arg not in known] == [], ast.unparse(node)


def test_results_plans_and_queries_draw_themselves_in_a_notebook() -> None:
    from decopa.report import notebook
    from decopa.traces.synthetic import SyntheticSpec

    result = decopa.run_detailed(
        "PATTERN SEQ(A a, B b) WITHIN 5 ms", SyntheticSpec(events=2_000, types=2, seed=1).table()
    )
    page = notebook.result_html(result)
    assert f"{result.matches.num_rows:,}" in page and "<iframe" in page and "SEQ(A,B)" in page
    assert "SEQ(A a, B b)" in notebook.query_html(result.plan.parts[0].query)
    assert "o3" in notebook.plan_html(result.plan)
    assert repr(result).startswith(f"RunResult({result.matches.num_rows:,} matches in 2,000 events")
    assert len(repr(result.plan)) < 120 and len(repr(result.plan.parts[0].query)) < 80
