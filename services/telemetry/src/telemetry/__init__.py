"""Shows the platform to people: heartbeats, facts and alerts as points of a time-series database."""
