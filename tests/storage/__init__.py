"""Runs in a bucket: the client and the node's part of it, against moto's S3 server."""
