"""Stand-in for a training script, without torch: the ranks connect through MASTER_PORT, print `up`, and wait.

saves     on SIGTERM, it takes 0.3 s to "save", prints `saved`, and exits with 75
ignores   it ignores SIGTERM
meets     it exits with 0 once all ranks have connected
"""

import os
import signal
import socket
import sys
import time

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
head, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])


def meet() -> None:
    """Connect the ranks.

    Rank 0 listens, as torch's store does. Each other rank sends its number and its run, and gets a reply.
    """
    run = os.environ["JOBC_RUN_DIR"]
    if rank == 0:
        with socket.create_server(("", port), reuse_port=False) as server:
            for _ in range(world - 1):
                peer, _ = server.accept()
                with peer, peer.makefile("rwb") as line:
                    number, theirs = line.readline().decode().rstrip("\n").split(" ", 1)
                    assert theirs == run, f"rank {number} of {theirs} came"
                    line.write(b"welcome\n")
        return
    deadline = time.monotonic() + 30
    while True:
        try:
            peer = socket.create_connection((head, port), 5)
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    with peer, peer.makefile("rwb") as line:
        line.write(f"{rank} {run}\n".encode())
        line.flush()
        assert line.readline() == b"welcome\n"


def save(*_: object) -> None:
    time.sleep(0.3)
    print("saved", flush=True)
    os._exit(75)


what = sys.argv[1]
if what == "ignores":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
elif what == "saves":
    signal.signal(signal.SIGTERM, save)
meet()
print("up at port", port, flush=True)
while what != "meets":
    time.sleep(60)
