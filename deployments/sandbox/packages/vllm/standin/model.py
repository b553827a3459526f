"""Stand-in for tests; not the real vLLM: what is served, and for what."""

from __future__ import annotations

from dataclasses import dataclass

GENERATE, EMBED, CLASSIFY = "generate", "embed", "classify"
TASKS = {
    GENERATE: ("generate",),
    EMBED: ("token_embed", "embed"),
    CLASSIFY: ("token_classify", "classify"),
}
"""What the real one calls the tasks that a model supports."""

RUNNERS = ("auto", "draft", "generate", "pooling")
CONVERTS = ("auto", "classify", "embed", "none")


@dataclass(frozen=True)
class Model:
    """What is served, under which names."""

    names: tuple[str, ...]
    root: str
    max_model_len: int
    task: str
    max_num_seqs: int


def task_of(runner: str, convert: str) -> str:
    """Return what the model is for, by the options alone; the real one also asks the model."""
    if convert in (EMBED, CLASSIFY):
        return convert
    return EMBED if runner == "pooling" else GENERATE
