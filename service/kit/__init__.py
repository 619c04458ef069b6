"""What every room may use and what knows no domain noun: errors, canonical JSON, the database, the actor."""
