# A stop is as Ctrl-C: it saves, and the next start continues from that file.
import json
import os
import signal
import time

signal.signal(signal.SIGTERM, signal.default_int_handler)
step = json.load(open("last.json"))["step"] if os.path.exists("last.json") else 0
print("from step", step, flush=True)
try:
    while not os.path.exists("enough"):
        step += 1
        print("step", step, flush=True)
        time.sleep(0.1)
except KeyboardInterrupt:
    print("interrupted: saving", flush=True)
    time.sleep(0.5)  # a second signal would lose the work
finally:
    json.dump({"step": step}, open("last.json", "w"))
