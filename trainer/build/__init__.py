"""From train.json to everything that a loop needs: data, model, optimizer, parallelism."""
