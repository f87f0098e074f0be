"""Checks of a whole job that are not rules: backend capabilities, site policy, unused keys, suppressions."""
