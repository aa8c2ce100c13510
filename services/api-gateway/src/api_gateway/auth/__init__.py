"""Decides who calls, how often, what they may do, see and write to; and keeps the audit of it."""
