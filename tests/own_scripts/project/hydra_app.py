# Hydra with a conf/ folder of its own, which is not jobc's.
import logging
import os

import hydra
from omegaconf import DictConfig, OmegaConf

log = logging.getLogger(__name__)


@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(cfg: DictConfig) -> None:
    log.info("config:\n%s", OmegaConf.to_yaml(cfg))
    log.info("training %s with lr %s in %s", cfg.model.name, cfg.lr, os.path.relpath(os.getcwd()))
    output = hydra.core.hydra_config.HydraConfig.get().runtime.output_dir
    with open(os.path.join(output, "last.ckpt"), "wb") as file:
        file.write(b"weights")


if __name__ == "__main__":
    main()
