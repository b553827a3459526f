"""Stand-in for tests; not the real vLLM: names of tensors in a GGUF file."""

from __future__ import annotations


def gguf_name(hf_name: str) -> str:
    """Return what a tensor of a checkpoint is called in a GGUF file."""
    return hf_name.replace("model.layers.", "blk.").replace("self_attn.", "attn_")
