"""Checkpoints: what they contain, how they are stored, saved in the background and verified."""
