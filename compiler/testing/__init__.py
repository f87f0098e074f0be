"""The conformance suite and golden tests for authors of backends."""
