"""Stand-in for tests; not the real vLLM: a file for operators to leave debug code in."""

from __future__ import annotations

from collections.abc import Sequence


class DeepseekV2Model:
    """Adds up what it is given, layer by layer."""

    def __init__(self, num_layers: int) -> None:
        """Remember the number of layers."""
        self.num_layers = num_layers

    def forward(self, hidden_states: Sequence[float]) -> list[float]:
        """Return the hidden states after all layers."""
        states = list(hidden_states)
        for layer in range(self.num_layers):
            states = [state + layer for state in states]
        return states
