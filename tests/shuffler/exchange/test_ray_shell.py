"""What actors share, without Ray: a shell that rests holds nothing of what it did."""

from __future__ import annotations

import threading
import weakref

from shuffler.exchange.ray_shell import Shell


class Held:
    """Something large, in a circle of references as nodes are."""

    def __init__(self) -> None:
        self.itself = self


class Holding(Shell):
    def __init__(self, setup: str) -> None:
        super().__init__(setup, f"the process {setup}")
        self._node = Held()


def test_a_shell_that_rests_lets_go_of_what_it_held_and_can_begin_anew() -> None:
    shell = Holding("first")
    held = weakref.ref(shell._node)
    shell.greet()
    told = threading.Thread(target=shell.watch_until_end)
    told.start()
    shell.rest()
    told.join(10)
    assert held() is None and not told.is_alive() and repr(shell) == "first"
    shell.reset("second")
    assert isinstance(shell._node, Held) and repr(shell) == "second"
