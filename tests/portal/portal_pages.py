"""Helpers of test_portal_pages.py and of its neighbours."""

from __future__ import annotations

STUDIOS = [
    ("/new?message=examples.v1.Booking&streams=bookings&cluster=local", "New dagger"),
    ("/new?kind=forward&streams=bookings", "New dagger"),
    ("/daggers/completed_bookings/edit", "Edit completed_bookings"),
]
SCREENS = [
    ("/", "Daggers"),
    ("/daggers/completed_bookings", "completed_bookings"),
    ("/daggers/completed_bookings?tab=revisions", "completed_bookings"),
    ("/daggers/completed_bookings?tab=quarantine", "completed_bookings"),
    ("/daggers/completed_bookings?tab=alerts", "completed_bookings"),
    ("/daggers/completed_bookings?tab=rules", "completed_bookings"),
    ("/daggers/completed_bookings?tab=log", "completed_bookings"),
    ("/daggers/completed_bookings?tab=query", "completed_bookings"),
    ("/alerts", "Alerts"),
    ("/silences", "Silences"),
    ("/new/silence", "New silence"),
    ("/routes", "Routes of alerts"),
    ("/routes/pricing", "pricing"),
    ("/audit", "Audit"),
    ("/streams", "Streams"),
    ("/schemas?message=examples.v1.Booking", "Schemas"),
    ("/clusters", "Clusters"),
    ("/hosts", "Hosts"),
    ("/teams", "Teams"),
    ("/teams/pricing", "pricing"),
    ("/sinks", "Sinks"),
    ("/references", "Reference tables"),
    ("/new/sink", "New sink"),
    ("/new/schema", "New schema"),
    ("/new/stream", "New stream"),
    ("/new/cluster", "New cluster"),
    ("/new/reference", "New reference table"),
    ("/new/team", "New team"),
    ("/teams/pricing/edit", "pricing"),
    ("/streams/bookings", "bookings"),
    ("/streams/bookings?edit=yes", "bookings"),
    ("/new/stream?of=completed_bookings", "Offer as stream"),
    ("/clusters/local", "local"),
    ("/sinks/archive", "archive"),
    ("/references/areas", "areas"),
    ("/nothing", "Nothing here"),
]
ELSEWHERE = ["/archive", "/daggers/completed_bookings/map", "/hosts/a"]
"""Judged with answers of their own, in test_portal_archive.py, test_portal_map.py, test_portal_hosts.py."""
