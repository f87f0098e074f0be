"""Read overrides and YAML into one tree whose values keep their positions in the source. The only user of Hydra."""
