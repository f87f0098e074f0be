"""What SkyPilot says of tasks: run by its own Python, in a home with a seeded catalog (catalogs/v8/common/*.csv), and
with the clusters of Slurm and the contexts of Kubernetes that the tasks name.

In     argv: task files.   Out  JSON on stdout: {file: what from_yaml or validate refuses, "" when it takes the task},
                           and SkyPilot's schemas below "schemas", the files not validated below "only_read"
"""

import json
import sys

import sky
from sky.utils import schemas

said, only_read = {}, []
ON_SITE = ("slurm", "kubernetes", "ssh")  # other clouds' regions are in a catalog that it would download
for file in sys.argv[1:]:
    try:
        task = sky.Task.from_yaml(file)
        if all(r.region is None or (str(r.cloud).lower() in ON_SITE and r.zone is None) for r in task.resources):
            task.validate(skip_file_mounts=True, skip_workdir=True)
        else:
            only_read.append(file)
        said[file] = ""
    except Exception as error:  # whatever it raises is its answer
        said[file] = f"{type(error).__name__}: {error}"
said["only_read"] = only_read
said["schemas"] = {"task": schemas.get_task_schema(), "resources": schemas.get_resources_schema()}
print(json.dumps(said, default=str))
