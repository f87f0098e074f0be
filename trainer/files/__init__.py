"""Durable writes, and reads with retries after I/O errors."""
