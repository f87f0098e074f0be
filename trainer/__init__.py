"""The trainer that every backend starts. The trainer needs only torch and the standard library; this file imports
nothing.
"""
