"""Stand-in for tests; not the real vLLM."""
