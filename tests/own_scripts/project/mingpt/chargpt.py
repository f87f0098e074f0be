# Started with -m; a configuration of its own, from --key=value.
import os
import sys
import time

from mingpt.utils import CfgNode as CN
from mingpt.utils import set_seed, setup_logging

if __name__ == "__main__":
    config = CN(seed=3407, work_dir="./out/chargpt", max_iters=None, learning_rate=5e-4)
    config.merge_from_args(sys.argv[1:])
    setup_logging(config)
    set_seed(config.seed)
    iter_time = time.time()
    for iter_num in range(config.max_iters):
        iter_dt, iter_time = time.time() - iter_time, time.time()
        print(f"iter_dt {iter_dt * 1000:.2f}ms; iter {iter_num}: train loss {3 / (iter_num + 1):.5f}")
    print("saving model")
    with open(os.path.join(config.work_dir, "model.pt"), "wb") as f:
        f.write(b"weights")
