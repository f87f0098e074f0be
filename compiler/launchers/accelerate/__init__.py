"""Files of `accelerate launch`, and the keys that accelerate and DeepSpeed accept."""
