"""Pure data: what an operation asks, pins, plans and shows, and the Protocols through which it sees the world."""
