"""Helpers of test_portal_pages.py and of its neighbours."""

from __future__ import annotations

STUDIOS = [
    ("/new?message=examples.v1.Booking&streams=bookings&cluster=local", "New dagger"),
    ("/new?kind=forward&streams=bookings", "New dagger"),
    ("/daggers/completed_bookings/edit", "Edit completed_bookings"),
]
