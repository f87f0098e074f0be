"""The exception that every reader of a value raises."""


class InvalidValue(Exception):
    """Raised for text that is not a value of the type.

    because: the reason.
    values: valid values, the most likely one first.
    """

    def __init__(self, because: str, *values: str) -> None:
        super().__init__(because)
        self.because, self.values = because, values
