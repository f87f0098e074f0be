"""Durable writes, and reads that are retried on bad disks."""
