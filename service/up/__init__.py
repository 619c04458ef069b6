"""`placet up`: one data directory, a database, the first tenant, and web and writer kept running until Ctrl-C."""
