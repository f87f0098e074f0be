"""Code of one's own beside jobc: data, a model, losses, a recipe. Only recipes.py imports something of jobc."""
