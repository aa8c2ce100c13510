"""The quarantine: its topic, the index of the topic in the database, and the service that reads and replays
it.
"""
