"""How soon a crash and a good answer are known, and what watching costs the host."""
