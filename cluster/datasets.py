"""Files of matches as a Ray Dataset."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray.data


def read_parts(files: Sequence[Path]) -> Any:
    """The Parquet files of a folder of matches, on the Ray that this program is connected to."""
    return ray.data.read_parquet([str(file) for file in files])
