"""The choices that users have are decided in one module, which loads nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from decopa import choices

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("decopa", "costmodel", "shuffler", "actors", "cluster")


def test_choices_load_nothing_of_the_project() -> None:
    code = "import sys; import decopa.choices; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    foreign = {"numpy", "pyarrow", "numba", "ray", "costmodel", "shuffler", "actors", "cluster"}
    assert not foreign & set(loaded.split())


def test_no_other_module_repeats_a_tuple_of_choices() -> None:
    tuples = {value for name, value in vars(choices).items() if name.isupper() and isinstance(value, tuple)}
    repeated = []
    for path in (path for package in PRODUCT for path in (ROOT / package).rglob("*.py")):
        if path != ROOT / "decopa" / "choices.py":
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Tuple) and all(isinstance(item, ast.Constant) for item in node.elts):
                    texts = tuple(item.value for item in node.elts if isinstance(item, ast.Constant))
                    if len(texts) > 1 and texts in tuples:
                        repeated.append(f"{path.relative_to(ROOT)}:{node.lineno}: {texts}")
    assert repeated == []
