"""What the `placet` command does: one module per word, loaded only when that word is said."""
