"""What SkyPilot says of tasks: run by its own Python, in a home with a seeded catalog (catalogs/v8/*/*.csv), and with
the clusters of Slurm and the contexts of Kubernetes that the tasks name.

In     argv: task files
Out    JSON on stdout. refused: file -> what from_yaml or validate says, "" when it takes the task; machines: file ->
       instance types of named clouds that SkyPilot would launch, for each of its resources; schemas: SkyPilot's own
"""

import json
import sys

import sky
from sky.utils import schemas

HAVE_A_CATALOG = ("AWS", "GCP")  # of which it has machines without asking anybody
refused, machines = {}, {}
for file in sys.argv[1:]:
    try:
        task = sky.Task.from_yaml(file)
        task.validate(skip_file_mounts=True, skip_workdir=True)
        named = [r for r in task.resources if str(r.cloud) in HAVE_A_CATALOG]
        found = [r.cloud.get_feasible_launchable_resources(r, task.num_nodes).resources_list for r in named]
        machines[file] = [sorted(each.instance_type for each in launchable) for launchable in found]
        refused[file] = ""
    except Exception as error:  # whatever it raises is its answer
        refused[file] = f"{type(error).__name__}: {error}"
own = {name: getattr(schemas, f"get_{name}_schema")() for name in ("task", "resources", "storage")}
print(json.dumps({"refused": refused, "machines": machines, "schemas": own}, default=str))
