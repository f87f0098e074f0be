"""Turn the signals that end a program into an exception, so that whatever the program has created is removed first."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType

from ..system.command_line import call

ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class _Ended(BaseException):
    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def call_until_ended(verb: Callable[[list[str]], int], argv: list[str]) -> int:
    """Run the verb as command_line.call() does. A signal that ends this program raises an exception in the verb."""
    for number in ENDING_SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, _raise)
    try:
        return call(verb, argv)
    except _Ended as ended:
        signal.signal(ended.number, signal.SIG_DFL)
        os.kill(os.getpid(), ended.number)
        return 1


def _raise(number: int, frame: FrameType | None) -> None:
    raise _Ended(number)
