"""Rules for `backend.extra` alone: fields that break the job or leak secrets. check(plan, options)."""
