"""Read the state of a job from its run folder and its engine. Subclasses are in backends/NAME/engine.py."""
