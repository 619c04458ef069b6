"""Who is asking: people and their sessions, clients and their tokens, and what each kind of credential may do."""
