"""What SkyPilot says of tasks: run by its own Python, in a home with a seeded catalog (catalogs/v8/common/*.csv).

In     argv: task files.   Out  JSON on stdout: {file: what from_yaml or validate refuses, "" when it takes the task},
                           and SkyPilot's schemas below "schemas"
"""

import json
import sys

import sky
from sky.utils import schemas

said = {}
for file in sys.argv[1:]:
    try:
        task = sky.Task.from_yaml(file)
        if all(resources.region is None for resources in task.resources):  # else it asks that site or cloud
            task.validate(skip_file_mounts=True, skip_workdir=True)
        said[file] = ""
    except Exception as error:  # whatever it raises is its answer
        said[file] = f"{type(error).__name__}: {error}"
said["schemas"] = {"task": schemas.get_task_schema(), "resources": schemas.get_resources_schema()}
print(json.dumps(said, default=str))
