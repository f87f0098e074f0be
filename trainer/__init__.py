"""The trainer that every backend starts. Needs torch and the standard library; this file imports nothing."""
