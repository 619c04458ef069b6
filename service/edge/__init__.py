"""HTTP in: limits, the guard, the MCP endpoint, OAuth's routes and the owner's pages."""
