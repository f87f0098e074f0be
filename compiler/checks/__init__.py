"""Checks of a whole job in addition to the rules: backend capabilities, site policy, unused keys, suppressions."""
