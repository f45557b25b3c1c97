"""What is installed: is it what constraints.txt says, under which licences, with native code, with known holes?

Vulnerabilities are looked up by pip-audit, which is installed into an environment of its own for the time of the run.
Where it, or the database that it asks, cannot be reached, this says so and ends with status 3.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import venv
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NATIVE = (".so", ".pyd", ".dylib", ".jar", ".dll", ".exe")
#: Comes with every environment, or is this project itself.
OWN = {"decopa", "pip", "setuptools", "wheel"}
FOUND, NOT_LOOKED_UP = 1, 3
TIMEOUT_S = 300
#: Not installed, but asked about: a version with holes that every database knows. pip-audit calls packages that it
#: cannot look up "skipped" and ends well, so that only this shows whether it looked up anything.
CONTROL = ("jinja2", "2.4.1")
#: Licences that ask for more than a notice; whoever ships the product must know of them.
DEMANDING = re.compile(r"\b(A?GPL|LGPL|MPL|EPL|CDDL|SSPL|GNU|Mozilla|Eclipse|Classpath)", re.IGNORECASE)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/audit", description=__doc__)
    parser.add_argument("--offline", action="store_true", help="do not look up vulnerabilities")
    args = parser.parse_args(arguments)
    installed = {normal(one.name): one for one in distributions()}
    wanted = pinned((ROOT / "constraints.txt").read_text())
    problems = differences(wanted, {name: one.version for name, one in installed.items()})
    print(f"versions: {len(installed)} packages installed, {len(wanted)} pinned")
    for problem in problems:
        print(f"  {problem}")
    _print_licences(installed.values())
    _print_native(installed.values())
    if args.offline:
        print("vulnerabilities: not looked up (--offline)")
        return FOUND if problems else NOT_LOOKED_UP
    vulnerable = _vulnerabilities(wanted)
    if vulnerable is None:
        return FOUND if problems else NOT_LOOKED_UP
    return FOUND if problems or vulnerable else 0


def normal(name: str) -> str:
    """Package names as they compare equal."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned(constraints: str) -> dict[str, str]:
    """name -> version of a constraints file; a line that pins nothing is an error."""
    found = {}
    for line in constraints.splitlines():
        text = line.partition("#")[0].strip()
        if text:
            name, equal, version = text.partition("==")
            if not equal:
                raise SystemExit(f"audit: constraints.txt: '{text}' names no version")
            found[normal(name.strip())] = version.strip()
    return found


def differences(wanted: Mapping[str, str], installed: Mapping[str, str]) -> list[str]:
    """What is installed in another version than the pinned one, or without being pinned."""
    found = []
    for name, version in sorted(installed.items()):
        if name in OWN:
            continue
        if name not in wanted:
            found.append(f"{name} {version} is installed and not pinned; add it to constraints.txt")
        elif wanted[name] != version:
            found.append(f"{name} {version} is installed, {wanted[name]} is pinned; run scripts/setup")
    return found


def licence_of(one: Distribution) -> str:
    """The licence as its package states it, in a few words."""
    metadata: Any = one.metadata
    stated = metadata.get("License-Expression") or ""
    if not stated:
        classes = [text.rpartition(" :: ")[2] for text in metadata.get_all("Classifier") or () if "License ::" in text]
        stated = ", ".join(text for text in classes if text != "OSI Approved")
    if not stated:
        stated = next(iter((metadata.get("License") or "").strip().splitlines()), "")
    return stated[:60] or "not stated"


def _print_licences(installed: Iterable[Distribution]) -> None:
    licences = {one.name: licence_of(one) for one in installed if normal(one.name) not in OWN}
    print("licences:")
    for licence, times in Counter(licences.values()).most_common():
        names = sorted(name for name, its in licences.items() if its == licence)
        note = "  <- asks for more than a notice" if DEMANDING.search(licence) else ""
        print(f"  {times:3} {licence}: {', '.join(names[:6])}{', ...' if len(names) > 6 else ''}{note}")


def _print_native(installed: Iterable[Distribution]) -> None:
    """Native code is what no reading of Python shows; keep its versions fresh first of all."""
    counts = {one.name: sum(str(path).endswith(NATIVE) for path in one.files or ()) for one in installed}
    native = sorted(((count, name) for name, count in counts.items() if count), reverse=True)
    print(f"native code: {len(native)} packages: {', '.join(f'{name} ({count})' for count, name in native)}")


def _vulnerabilities(wanted: Mapping[str, str]) -> int | None:
    """How many known ones the pinned versions have; None if that cannot be known here."""
    assert CONTROL[0] not in wanted, "choose another control: this one is used now"
    with tempfile.TemporaryDirectory(prefix="decopa-audit-") as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder) / "bin" / "python")
        install = _ran([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "pip-audit"])
        if install is None or install.returncode:
            _tell_not_looked_up("pip-audit cannot be installed", install)
            return None
        listed = Path(folder) / "pinned.txt"
        lines = [f"{name}=={version}\n" for name, version in {**wanted, CONTROL[0]: CONTROL[1]}.items()]
        listed.write_text("".join(lines))
        command = [python, "-m", "pip_audit", "--disable-pip", "--no-deps", "--progress-spinner", "off"]
        audit = _ran([*command, "--format", "json", "--requirement", str(listed)])
        try:
            found, skipped = verdict(json.loads(audit.stdout if audit is not None else ""))
        except (ValueError, KeyError, TypeError):
            _tell_not_looked_up("the vulnerability database does not answer", audit)
            return None
    if found is None:
        _tell_not_looked_up(f"it knows of no hole even in {' '.join(CONTROL)}, which has many", None)
        return None
    print(f"vulnerabilities: {len(found)} known in {len(wanted) - len(skipped)} packages")
    for line in found:
        print(f"  {line}")
    if skipped:
        print(f"  NOT LOOKED UP: {len(skipped)} packages that the database does not know: {', '.join(skipped)}")
    return len(found) if found or not skipped else None


def verdict(report: dict[str, Any]) -> tuple[list[str] | None, list[str]]:
    """A line for each known hole, and the packages that were not looked up. No lines but None if the control has no
    hole either: then nothing was looked up, whatever pip-audit says."""
    found, skipped, control = [], [], False
    for one in report["dependencies"]:
        holes = one.get("vulns", ())
        if normal(one["name"]) == CONTROL[0]:
            control = bool(holes)
        elif "skip_reason" in one:
            skipped.append(str(one["name"]))
        for hole in holes if normal(one["name"]) != CONTROL[0] else ():
            fixed = ", ".join(hole["fix_versions"]) or "nothing yet"
            found.append(f"{one['name']} {one['version']}: {hole['id']}, fixed in {fixed}")
    return found if control else None, skipped


def _ran(command: list[str]) -> subprocess.CompletedProcess[str] | None:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return None


def _tell_not_looked_up(reason: str, run: subprocess.CompletedProcess[str] | None) -> None:
    said = "no answer" if run is None else (run.stderr.strip().splitlines() or ["no reason given"])[-1]
    # Addresses of package servers are nobody's business in a log.
    said = re.sub(r"https?://\S+|host='[^']*'", "(address)", said)
    print(f"vulnerabilities: NOT LOOKED UP: {reason}: {said[:300]}")
    print("  run scripts/audit where the network allows it; this is no all-clear")


if __name__ == "__main__":
    sys.exit(main())
