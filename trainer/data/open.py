"""Open the data source that the config specifies."""

from ..config.schema import DigitsConfig, RandomTokensConfig, StdlibBytesConfig, TrainConfig
from ..config.target import Target
from ..lifecycle.errors import BrokenInput
from . import digits, map_style, random_tokens, stdlib_bytes
from .source import DataSource


def open_source(config: TrainConfig) -> DataSource:
    """Open the data source in config.data. Raises BrokenInput if it has too few training samples."""
    if isinstance(config.data, Target):
        return map_style.open_source(config)
    if isinstance(config.data, DigitsConfig):
        return digits.open_source(config.data)
    if isinstance(config.data, RandomTokensConfig):
        return random_tokens.open_source(config.data, config.seed, context=_context_length(config))
    assert isinstance(config.data, StdlibBytesConfig)
    return stdlib_bytes.open_source(config.data, context=_context_length(config))


def _context_length(config: TrainConfig) -> int:
    """Return the model's context length, the tokens per sample, which rules.find_contradictions() has required."""
    model = config.model
    context = model.get("context") if isinstance(model, Target) else getattr(model, "context", None)
    if not isinstance(context, int):
        raise BrokenInput("model.context: missing; it sets the number of tokens in one sample")
    return context
