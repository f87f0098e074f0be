"""Campaigns: count how often a claim holds when it is tested many times. `make prove` runs them.

There is one file per campaign, with a CAMPAIGN (campaign.py). Its results are stored in docs/proof/NAME.jsonl.
"""
