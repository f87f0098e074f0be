"""Runs in a bucket: the client and the node's part, tested against moto's S3 server."""
