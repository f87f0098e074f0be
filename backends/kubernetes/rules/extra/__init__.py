"""What `backend.extra` says by itself, and would break or give away: check(plan, options)."""
