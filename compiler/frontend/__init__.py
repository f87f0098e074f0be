"""Read overrides and YAML into one tree whose values know where they were written. The only user of Hydra."""
