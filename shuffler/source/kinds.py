"""What a user can say that a column holds, as Arrow types."""

from __future__ import annotations

import pyarrow as pa

from decopa.choices import COLUMN_KINDS

KINDS = dict(
    zip(
        COLUMN_KINDS,
        (pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.timestamp("us"), pa.timestamp("us", "UTC")),
        strict=True,
    )
)
