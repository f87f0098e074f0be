"""Runs in a bucket: the client and the node's code, tested against moto's S3 server."""
