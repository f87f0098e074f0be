"""A job's recipe: model, data, loss and optimizer. A custom recipe extends Recipe."""

from .recipe import Recipe

__all__ = ["Recipe"]
