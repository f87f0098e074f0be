"""The lab's rules for jobs, in policy.py."""
