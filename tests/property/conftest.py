"""Property tests run on small streams; stores treat them as they treat large ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from actors.columnar import store


@pytest.fixture(autouse=True, scope="package")
def stores_defer_rows() -> Iterator[None]:
    """Rows that belong before more than two others wait to be inserted, instead of before thousands."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "MANY", 2)
        yield
