# A tracker offline, or none where it is not installed; figures in a CSV file in either case.
import csv
import os
import tempfile

os.environ.setdefault("WANDB_MODE", "offline")
os.environ.setdefault("WANDB_DIR", tempfile.mkdtemp(dir="."))
try:
    import not_installed_wandb as wandb
except ImportError:
    wandb = None
    print("wandb is not installed: metrics.csv only")
if wandb:
    wandb.init(project="own")
with open("metrics.csv", "w", newline="") as file:
    writer = csv.DictWriter(file, fieldnames=["step", "loss"])
    writer.writeheader()
    for step in range(3):
        writer.writerow({"step": step, "loss": 1 / (step + 1)})
