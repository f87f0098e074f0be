"""Counted campaigns: how often a claim of the README held when it was tried many times. `make prove` runs them.

One file per campaign, each with a CAMPAIGN (campaign.py); the results are lines of docs/proof/NAME.jsonl.
"""
