"""Recipe of a job: model, data, loss and optimizer. Your own recipe extends Recipe."""

from .recipe import Recipe

__all__ = ["Recipe"]
