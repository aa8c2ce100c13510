"""`daggers local` and `daggers demo`."""
