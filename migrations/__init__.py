"""The schema's history, its roles and what each may touch."""
