"""What happened: an append-only record per tenant, each entry bound to the one before by its hash."""
