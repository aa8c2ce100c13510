"""Makes what commands are made of: groups, arguments, a session, the gateway, and who extends the command."""
