"""Parallelism: how ranks share one model. One file per kind; way.py defines the interface."""
