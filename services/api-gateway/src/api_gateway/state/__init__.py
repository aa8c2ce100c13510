"""State of the control log: the fold, its tables, heartbeats; reads wait for a sequence, writes append
requests.
"""
