"""The conformance suite and golden tests for backend authors."""
