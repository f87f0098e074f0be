# A thread that prefetches, a heartbeat, and a summary at exit.
import atexit
import json
import queue
import threading
import time

batches, seen, started = queue.Queue(maxsize=2), [], time.time()


@atexit.register
def summary():
    with open("summary.json", "w") as file:
        json.dump({"batches": len(seen), "seconds": time.time() - started}, file)


def prefetch():
    for batch in range(8):
        batches.put([batch] * 4)
    batches.put(None)


def heartbeat():
    while True:
        time.sleep(60)


threading.Thread(target=prefetch).start()
threading.Thread(target=heartbeat, daemon=True).start()
while (item := batches.get()) is not None:
    seen.append(sum(item))
print("batches", len(seen))
