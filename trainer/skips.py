"""Steps whose update is left out because their gradient is not finite: told each time, and not for ever."""

from .errors import Diverged


class Skips:
    """Counts them in a row; equal on all ranks. most: as loop.max_skips"""

    def __init__(self, most: int) -> None:
        self._most = most
        self._row = 0

    def after(self, done: int, trouble: str) -> str:
        """The line to tell, or "". trouble: of step `done`, as in StepResult. Raises Diverged when it is too many."""
        self._row = self._row + 1 if trouble else 0
        if self._row > self._most:
            hint = (
                "the newest checkpoint may be from before; a lower optim.lr or a smaller optim.clip_norm may help, in a"
            )
            hint += " new run from its weights (--fork, from step 0)"
            title = f"more than {self._most} steps in a row, up to {done}, have no finite gradient"
            raise Diverged(title, [trouble], hint)
        if not trouble:
            return ""
        row = f"{self._row} in a row, {self._most} at most"
        return f"warning: step {done} is skipped, the weights stay: {trouble}; {row}"
