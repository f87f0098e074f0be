"""Print what SkyPilot reports about tasks. Runs in SkyPilot's own Python, in a home with a seeded catalog
(catalogs/v8/*/*.csv), and with the Slurm clusters and Kubernetes contexts that the tasks use.

In     argv: task files
Out    JSON on stdout. refused: file -> error of from_yaml or validate, "" if SkyPilot accepts the task; machines: file
       -> instance types of named clouds that SkyPilot would launch, for each of its resources; schemas: SkyPilot's own
"""

import json
import sys

import sky
from sky.utils import schemas

HAVE_A_CATALOG = ("AWS", "GCP")  # clouds whose machines are known without a query
refused, machines = {}, {}
for file in sys.argv[1:]:
    try:
        task = sky.Task.from_yaml(file)
        task.validate(skip_file_mounts=True, skip_workdir=True)
        named = [r for r in task.resources if str(r.cloud) in HAVE_A_CATALOG]
        found = [r.cloud.get_feasible_launchable_resources(r, task.num_nodes).resources_list for r in named]
        machines[file] = [sorted(each.instance_type for each in launchable) for launchable in found]
        refused[file] = ""
    except Exception as error:  # any exception is its answer
        refused[file] = f"{type(error).__name__}: {error}"
own = {name: getattr(schemas, f"get_{name}_schema")() for name in ("task", "resources", "storage")}
print(json.dumps({"refused": refused, "machines": machines, "schemas": own}, default=str))
