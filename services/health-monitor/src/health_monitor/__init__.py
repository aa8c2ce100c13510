"""Watches the daggers and tells on-call: observations become alerts, alerts become notifications."""
