"""Rules that would only repeat what others say better: check(task), when nothing else is an error."""
