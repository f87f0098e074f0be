"""Read overrides and YAML into one tree whose values keep their source positions. Only this folder uses Hydra."""
