"""The only hand that moves refs: what is fixed, what is written in which order, and what a crash leaves."""
