"""jobc init: write a cluster profile from what this machine and its scheduler report."""
