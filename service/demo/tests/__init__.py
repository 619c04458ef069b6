"""Run with python -m unittest discover -s tests -t ."""
