"""Campaigns: how often a claim from the README held when it was tested many times. `make prove` runs them.

There is one file per campaign, with a CAMPAIGN (campaign.py); its results are the lines in docs/proof/NAME.jsonl.
"""
