"""What is trained: the recipe of a job, its loss and its optimizer. A recipe of your own extends Recipe."""

from .recipe import Recipe

__all__ = ["Recipe"]
