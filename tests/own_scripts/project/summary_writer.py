# Writes events into runs/, the default folder of TensorBoard, beside those of jobc.
import os
import socket
from datetime import datetime

log_dir = os.path.join("runs", datetime.now().strftime("%b%d_%H-%M-%S") + "_" + socket.gethostname())
os.makedirs(log_dir)
with open(os.path.join(log_dir, "events.out.tfevents"), "wb") as file:
    file.write(b"events")
print("tensorboard --logdir", log_dir)
