"""Runs in an S3 bucket: the client, and copies of the run folder."""
