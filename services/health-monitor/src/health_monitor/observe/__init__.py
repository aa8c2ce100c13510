"""Watches daggers: heartbeats, also those of before the start, and answers of silent Spark drivers."""
