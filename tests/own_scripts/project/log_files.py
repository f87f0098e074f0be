# Log files of each rank; on the console rank 0 alone.
import logging
import os
import sys

rank, world_size = int(os.getenv("RANK", 0)), int(os.getenv("WORLD_SIZE", 1))
os.makedirs("logs/train", exist_ok=True)
handlers = [logging.FileHandler(f"logs/train/log_rank{rank}.txt")]
if rank == 0:
    handlers.append(logging.StreamHandler(sys.stdout))
logging.basicConfig(level=logging.INFO, format="[%(asctime)s][%(levelname)s] %(message)s", handlers=handlers)
logging.info("rank %d of %d", rank, world_size)
logging.getLogger("noisy").debug("not shown")
