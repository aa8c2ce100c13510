"""Listens for callbacks of receivers, and acknowledges what people acknowledge there."""
