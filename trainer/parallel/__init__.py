"""Parallelism: how ranks share one model. One file per kind; interface.py defines the interface."""
