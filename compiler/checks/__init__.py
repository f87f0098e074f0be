"""Checks of a whole job beside the rules: backend capabilities, site policy, unused keys, suppressions."""
