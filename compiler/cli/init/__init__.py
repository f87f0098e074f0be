"""jobc init: write a cluster profile from facts that this machine and its scheduler report."""
