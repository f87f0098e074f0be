"""The trainer that every backend starts. It needs only torch and the standard library; this file imports nothing."""
