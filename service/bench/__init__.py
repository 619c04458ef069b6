"""Measure what is promised about speed, and what the promises would cost to drop.

Nothing here runs in production: `app` and `worker` cannot import it, and neither can what they import (pyproject.toml).
That matters most for the naive writer, which loses commits on purpose.
"""
