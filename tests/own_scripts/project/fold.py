import json
import sys
from pathlib import Path

fold = int(sys.argv[sys.argv.index("--fold") + 1])
Path("results").mkdir(exist_ok=True)
Path(f"results/fold_{fold}.json").write_text(json.dumps({"score": 0.5 + fold / 4}))
print("fold", fold, "is done")
