# The newest of checkpoints/ continues; this version has a bug.
import glob
import json
import os

files = sorted(glob.glob("checkpoints/epoch_*.json"))
state = json.load(open(files[-1])) if files else {"epoch": 0, "history": []}
print("starting from", files[-1] if files else "scratch")
os.makedirs("checkpoints", exist_ok=True)
labels = {0: "cat", 1: "dog", 2: "fox"}
for epoch in range(state["epoch"], 4):
    state["history"].append(labels[epoch])
    state["epoch"] = epoch + 1
    json.dump(state, open(f"checkpoints/epoch_{epoch + 1}.json", "w"))
print("history:", *state["history"])
