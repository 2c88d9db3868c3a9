"""Language models, as far as serving them goes: their size, and the memory that a token leaves behind."""

from __future__ import annotations

from dataclasses import dataclass

from proreus.model.errors import unknown_name


@dataclass(frozen=True)
class LanguageModel:
    """A decoder with grouped attention: several query heads share the keys and values of one KV head."""

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    inner: int
    """Width of a feed-forward layer, or of an expert."""
    vocabulary: int
    weights: int
    """Bytes."""
    number_size: int = 2
    """Bytes of a number."""
    experts: int = 0
    """Of a layer, where a token passes a few of many."""
    experts_of_token: int = 0

    @property
    def kv_bytes(self) -> int:
        """KV memory that a token leaves behind: keys and values of every KV head."""
        return 2 * self.layers * self.kv_heads * self.head_size * self.number_size

    @property
    def expert_bytes(self) -> int:
        """Weights of one expert in all layers."""
        return 3 * self.layers * self.hidden * self.inner * self.number_size

    @property
    def kv_bytes_of_all_heads(self) -> int:
        """The same as if every head had keys and values of its own: what splitwise-sim counts."""
        return 2 * self.layers * self.hidden * self.number_size


_KNOWN = (
    LanguageModel("bloom-176b", 70, 14336, 112, 112, 128, 57344, 250880, 329_000_000_000),
    LanguageModel("llama2-70b", 80, 8192, 64, 8, 128, 28672, 32000, 135_000_000_000),
    LanguageModel("llama3-8b", 32, 4096, 32, 8, 128, 14336, 128256, 16_060_522_496),
    LanguageModel("llama3-70b", 80, 8192, 64, 8, 128, 28672, 128256, 141_107_412_992),
    LanguageModel("qwen3-32b", 64, 5120, 64, 8, 128, 25600, 151936, 65_524_246_528),
    LanguageModel("qwen3-30b-a3b", 48, 2048, 32, 4, 128, 768, 151936, 61_064_245_248, 2, 128, 8),
)
LANGUAGE_MODELS = {model.name: model for model in _KNOWN}


def language_model(name: str) -> LanguageModel:
    """The model of that name; a UsageError names the nearest one known."""
    if name not in LANGUAGE_MODELS:
        raise unknown_name("language model", name, LANGUAGE_MODELS)
    return LANGUAGE_MODELS[name]
