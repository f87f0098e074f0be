"""Classes that read a job's state from its run folder and its engine. Subclasses are in backends/NAME/engine.py."""
