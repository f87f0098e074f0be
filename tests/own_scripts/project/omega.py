# A YAML file, merged with key=value arguments.
import os

from omegaconf import OmegaConf

cfg = OmegaConf.merge(OmegaConf.load("configs/base.yaml"), OmegaConf.from_cli())
os.makedirs(cfg.exp.dir, exist_ok=True)
OmegaConf.save(cfg, os.path.join(cfg.exp.dir, "config.yaml"))
print(f"{cfg.exp.name}: {cfg.train.steps} steps at {cfg.train.lr}")
