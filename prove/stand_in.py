"""Stand-in for a training script, without torch. Writes files named WHAT.RANK in $MARKS.

save              on SIGTERM, it counts the signal, takes 0.3 s to "save", and exits with 75
end CODE WHO      rank WHO (or `all`) exits with CODE once all ranks are up; the others wait until they are ended
record TEXT…      writes its arguments and its environment as bytes, NUL between them
"""

import os
import signal
import sys
import time
from pathlib import Path

rank = os.environ["RANK"]
marks = Path(os.environ["MARKS"])
arrived: list[float] = []  # when each SIGTERM arrived


def leave(what: str, content: bytes = b"") -> None:
    unfinished = marks / f".{what}.{rank}"
    unfinished.write_bytes(content)
    unfinished.replace(marks / f"{what}.{rank}")


def save(*_: object) -> None:
    arrived.append(time.monotonic())
    if len(arrived) > 1:
        return
    time.sleep(0.3)
    leave("saved", str(len(arrived)).encode())
    os._exit(75)


what, *words = sys.argv[1:]
if what == "save":
    signal.signal(signal.SIGTERM, save)
    leave("up")
elif what == "end":
    leave("up")
    while not all((marks / f"up.{other}").exists() for other in range(int(os.environ["WORLD_SIZE"]))):
        time.sleep(0.01)
    if words[1] in (rank, "all"):
        sys.exit(int(words[0]))
elif what == "record":
    leave("arguments", b"\0".join(map(os.fsencode, words)))
    leave("environment", b"\0".join(b"%s=%s" % item for item in os.environb.items()))
    sys.exit(0)
while True:
    time.sleep(60)
