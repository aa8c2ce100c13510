"""The pages of Daggers: static files, login and sessions, and a bridge from browsers to the gateway."""
