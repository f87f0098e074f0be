"""Rules for mistakes that SkyPilot accepts or reports late: JC4701 to JC4721.

    ./       check(plan, options)  keys of the job
    task/    check(task)           on the finished task, after all keys are merged
    last/    check(task)           only if there are no other errors
Each rule was verified with SkyPilot 0.14.1: `sky.Task.from_yaml`, `validate()`, `sky launch --dryrun` and a real
launch.
"""
