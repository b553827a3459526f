"""How fast a journal is read, beside a bare loop over its lines."""
