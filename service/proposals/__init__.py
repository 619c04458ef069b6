"""A proposal's life, the same for every operation: planned, stored, decided, executed."""
