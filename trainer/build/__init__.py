"""Build everything a training loop needs from train.json: data, model, optimizer, parallelism."""
