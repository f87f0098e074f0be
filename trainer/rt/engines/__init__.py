"""How a job is doing: from the files of its run, and from its engine. backends/NAME/engine.py has the subclasses."""
