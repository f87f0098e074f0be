"""The job spec: its types, the conversion of text to values, and facts about sites."""
