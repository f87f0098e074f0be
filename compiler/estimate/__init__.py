"""What a job will take: steps, memory, time, money, failures. For `jobc plan`; no artifact depends on it."""
