"""What the documentation shows is executed: README, the notebook, docstrings."""

from __future__ import annotations

import doctest
import importlib
import json
import re
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("name", ["decopa.api", "decopa.commands.option_types", "decopa.report.run_summary"])
def test_examples_in_docstrings_are_right(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_results_plans_and_queries_draw_themselves_in_a_notebook() -> None:
    import decopa
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
