"""Graceful Ctrl-C: finish the calls under way, then stop."""

import signal
import threading
from types import FrameType
from typing import Any


class Interrupt:
    """While active, the first Ctrl-C is remembered; a second one interrupts at once.

    Signals reach the main thread alone; elsewhere this does nothing. Where the process ignores Ctrl-C, or another
    program than Python handles it, that stays so.
    """

    def __init__(self) -> None:
        self.asked = False
        self._previous: Any = None

    def __enter__(self) -> "Interrupt":
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGINT) not in (signal.SIG_IGN, None):
            self._previous = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
