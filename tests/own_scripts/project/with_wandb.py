# A run of wandb offline, beside a bar of tqdm.
import os

import wandb
from tqdm import tqdm

run = wandb.init(project="own", mode="offline", config={"lr": 0.1})
for step in tqdm(range(20), desc="training"):
    run.log({"loss": 1 / (step + 1)}, step=step)
run.finish()
print("kept", len([name for name in os.listdir("wandb") if name.startswith("offline-run")]), "run")
