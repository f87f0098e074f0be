# --config-file, and the rest of the line as pairs of key and value.
import argparse
import os

import yaml

parser = argparse.ArgumentParser()
parser.add_argument("--config-file", required=True)
parser.add_argument("--eval-only", action="store_true")
parser.add_argument("opts", nargs=argparse.REMAINDER)
args = parser.parse_args()
with open(args.config_file) as file:
    cfg = yaml.safe_load(file)
for key, value in zip(args.opts[::2], args.opts[1::2], strict=True):
    section, name = key.lower().split(".")
    cfg[section][name] = yaml.safe_load(value)
os.makedirs("output", exist_ok=True)
with open("output/config.yaml", "w") as file:
    yaml.safe_dump(cfg, file)
print("Command Line Args:", args)
print("lr", cfg["train"]["lr"], "steps", cfg["train"]["steps"])
