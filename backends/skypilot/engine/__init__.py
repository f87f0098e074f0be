"""SkyPilot, for the verbs of an artifact. Packed into jobctl; Python 3.8."""

from .skypilot_engine import SkypilotEngine

ENGINE = SkypilotEngine
