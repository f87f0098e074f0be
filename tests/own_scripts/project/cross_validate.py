# One process for each fold, and their results put together.
import json
import subprocess
import sys
from pathlib import Path

scores = []
for fold in range(2):
    subprocess.run([sys.executable, "fold.py", "--fold", str(fold)], check=True)
    scores.append(json.loads(Path(f"results/fold_{fold}.json").read_text())["score"])
print(f"mean of {len(scores)} folds: {sum(scores) / len(scores):.2f}")
