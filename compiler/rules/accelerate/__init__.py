"""Rules on what a user merges into accelerate.yaml and deepspeed.json: check(plan, extra, deepspeed_extra, section)."""
