import json
import os
import random
import sys
from ast import literal_eval


def set_seed(seed):
    random.seed(seed)


def setup_logging(config):
    work_dir = config.work_dir
    os.makedirs(work_dir, exist_ok=True)
    with open(os.path.join(work_dir, "args.txt"), "w") as f:
        f.write(" ".join(sys.argv))
    with open(os.path.join(work_dir, "config.json"), "w") as f:
        f.write(json.dumps(vars(config), indent=4))


class CfgNode:
    def __init__(self, **kwargs):
        self.__dict__.update(kwargs)

    def merge_from_args(self, args):
        for arg in args:
            key, val = arg.split("=")
            assert key[:2] == "--" and hasattr(self, key[2:]), (
                f"{key[2:]} is not an attribute that exists in the config"
            )
            try:
                val = literal_eval(val)
            except ValueError:
                pass
            print(f"command line overwriting config attribute {key[2:]} with {val}")
            setattr(self, key[2:], val)
