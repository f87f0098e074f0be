"""Stand-in for a training script: no torch; does what its words say, in order, and leaves marks in $MARKS.

Words  mark              write MARKS/RANK with the pid
       meet              mark, and go on when all ranks have
       handle SIGNAL=N   from now on, SIGNAL leaves the mark `saved.RANK` after 0.3 s and ends with status N
       ignore SIGNAL
       daemon            leave a process behind that forked twice and called setsid; its pid in MARKS/daemon.RANK
       record            write arguments, environment and folder to MARKS/record.RANK (NUL-separated)
       only N            the words after it are for rank N, until the next `only` or `all`
       say TEXT | raise | exit N | kill SIGNAL | wait
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

rank = os.environ.get("RANK", "0")
marks = Path(os.environ["MARKS"])


def leave(name: str, text: str = "") -> None:
    unfinished = marks / f".{name}"
    unfinished.write_text(text)
    unfinished.replace(marks / name)


def save_and_end(status: int) -> None:
    count = marks / f"signals.{rank}"
    count.write_text(str(int(count.read_text()) + 1 if count.exists() else 1))
    time.sleep(0.3)
    leave(f"saved.{rank}")
    os._exit(status)


def daemon() -> None:
    grandchild = "import os, time; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0)\n"
    grandchild += f"open({str(marks / 'daemon')!r} + '.{rank}', 'w').write(str(os.getpid())); time.sleep(300)"
    subprocess.run([sys.executable, "-S", "-c", grandchild], check=True)
    while not (marks / f"daemon.{rank}").exists() or not (marks / f"daemon.{rank}").read_text():
        time.sleep(0.01)


def record() -> None:
    values = [*sys.argv[1:], "--", os.getcwd(), *(f"{k}={v}" for k, v in os.environ.items())]
    (marks / f"record.{rank}").write_bytes(b"\0".join(map(os.fsencode, values)))


words = iter(sys.argv[1:])
mine = True
for word in words:
    if word in ("only", "all"):
        mine = word == "all" or next(words) == rank
        continue
    argument = next(words) if word in ("handle", "ignore", "say", "exit", "kill") else ""
    if not mine:
        continue
    if word == "mark":
        leave(rank, str(os.getpid()))
    elif word == "meet":
        leave(rank, str(os.getpid()))
        while not all((marks / str(other)).exists() for other in range(int(os.environ["WORLD_SIZE"]))):
            time.sleep(0.01)
    elif word == "handle":
        name, _, status = argument.partition("=")
        signal.signal(signal.Signals[name], lambda *_, status=int(status): save_and_end(status))
    elif word == "ignore":
        signal.signal(signal.Signals[argument], signal.SIG_IGN)
    elif word == "daemon":
        daemon()
    elif word == "record":
        record()
        break
    elif word == "say":
        print(argument, flush=True)
    elif word == "raise":
        raise RuntimeError(f"rank {rank} has a bug")
    elif word == "exit":
        sys.exit(int(argument))
    elif word == "kill":
        os.kill(os.getpid(), signal.Signals[argument])
    elif word == "wait":
        while True:
            time.sleep(60)
