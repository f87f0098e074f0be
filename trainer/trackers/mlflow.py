"""Log to MLflow through its client. A job is an MLflow experiment, and a run is an MLflow run. Needs `mlflow` or
`mlflow-skinny` (tested with 3.17).

Logs to MLFLOW_TRACKING_URI, by default mlruns/ in the run folder. If runs are in a bucket, each attempt creates a new
mlruns/.
"""

import os
import time
from collections.abc import Mapping
from typing import Any

from . import TrackedRun, print_warning

TAG = "jobc.run_id"


class MlflowRun:
    """One MLflow run. Later attempts of the job find it by its tag. client: an mlflow.MlflowClient"""

    def __init__(self, client: Any, run_id: str) -> None:
        self._client, self._run_id = client, run_id

    def log(self, step: int, values: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        self._client.log_batch(self._run_id, metrics=[Metric(name, value, now, step) for name, value in values.items()])

    def close(self, done: bool) -> None:
        """Set the final status: FINISHED, or KILLED until a later attempt continues the run."""
        self._client.set_terminated(self._run_id, "FINISHED" if done else "KILLED")


def open_run(run: TrackedRun) -> MlflowRun:
    import mlflow

    uri = os.environ.get("MLFLOW_TRACKING_URI")
    if not uri and os.environ.get("JOBC_STORE"):
        print_warning(
            "tracker mlflow: each attempt becomes a separate run; set MLFLOW_TRACKING_URI to a server to "
            "combine these runs"
        )
    uri = uri or (run.folder / "mlruns").as_uri()
    if uri.startswith("file:"):
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # MLflow 3.17 requires it
    client = mlflow.MlflowClient(tracking_uri=uri)
    existing = client.get_experiment_by_name(run.job)
    experiment = existing.experiment_id if existing else client.create_experiment(run.job)
    runs = client.search_runs([experiment], filter_string=f"tags.`{TAG}` = '{run.id}'")
    if runs:
        client.update_run(runs[0].info.run_id, status="RUNNING")
        return MlflowRun(client, runs[0].info.run_id)
    new_run = client.create_run(experiment, tags={TAG: run.id}, run_name=run.id)
    for section, values in run.config.items():
        for name, value in (values if isinstance(values, dict) else {"": values}).items():
            client.log_param(new_run.info.run_id, f"{section}.{name}".rstrip("."), value)
    return MlflowRun(client, new_run.info.run_id)
