"""Runs in an S3 bucket: client, copies of the run folder."""
