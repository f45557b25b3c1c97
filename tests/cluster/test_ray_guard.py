"""Guard rails on a real Ray: a run is ended while it is going, with the operator in the message."""

from __future__ import annotations

import pyarrow as pa
import pytest

import decopa
from actors.group import Limits
from cluster.options import RayOptions
from decopa.api import run_detailed
from shuffler.source.pacing import Replay

pytestmark = pytest.mark.ray


def test_a_limit_on_comparisons_ends_a_run_while_events_still_come(ray_cluster: None) -> None:
    count = 100_000
    types = pa.DictionaryArray.from_arrays(pa.array([0, 1] * (count // 2), pa.int32()), ["A", "B"])
    events = pa.table({"id": range(count), "ts": range(count), "type": types, "x": range(count)})
    seen: list[int] = []
    with pytest.raises(decopa.LimitError, match=r"operator o3 AND\(A,B\).* comparisons"):
        run_detailed(
            "PATTERN AND(A a, B b) WHERE a.x + b.x < 0 WITHIN 10 ms",
            events,
            units=1,
            limits=Limits(max_comparisons=1_000_000),
            ray=RayOptions(metrics=False, replay=Replay(rate=20_000)),
            watch=decopa.Watch(progress=lambda events, matches: seen.append(events)),
        )
    assert seen[-1] < count
