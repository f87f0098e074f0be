"""Your own code for a job: data, a model, losses and a recipe. Only recipes.py imports from jobc."""
