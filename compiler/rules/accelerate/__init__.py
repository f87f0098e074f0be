"""Rules about what users add to accelerate.yaml and deepspeed.json: check(plan, extra, deepspeed_extra, section)."""
