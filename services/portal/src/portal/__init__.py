"""The pages of Daggers: static files, login and sessions, a bridge from browsers to the gateway."""
