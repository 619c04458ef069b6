"""May this still happen: tenants, projects, members, connections, and what each connection may propose."""
