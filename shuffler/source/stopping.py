"""Stop: how somebody outside asks a live stream to end, and how the stream answers."""

from __future__ import annotations

import os


class StreamStopped(Exception):
    """Raised by a live stream that was asked to stop: it has not ended, so nothing is decided that was open."""


class Stop:
    """Set once, from any thread or a signal handler; its descriptor can be waited for beside others."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        self._set = self._closed = False

    def set(self) -> None:
        if not self._set:
            self._set = True
            if not self._closed:
                os.write(self._writing, b".")

    def is_set(self) -> bool:
        return self._set

    def fileno(self) -> int:
        """Becomes readable when the stop is set."""
        return self._reading

    def close(self) -> None:
        """Nobody waits any more; may be called again."""
        if not self._closed:
            self._closed = True
            os.close(self._reading)
            os.close(self._writing)

    def __enter__(self) -> Stop:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
