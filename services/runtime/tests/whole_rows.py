"""Helpers of test_whole_rows.py and of its neighbours."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import Row


def grouped(what: str, window: str, more: str = "") -> str:
    """A sub-query over events: groups of customers, with their event time."""
    kind, _, spans = window.partition(" ")
    spans = ", ".join(f"INTERVAL '{seconds}' SECOND" for seconds in spans.split())
    return f"""(SELECT customer_id AS c, {what} AS n, {kind}_ROWTIME(rowtime, {spans}) AS rt
        FROM customer_events GROUP BY {kind}(rowtime, {spans}), customer_id {more}) AS i"""


TUMBLES, HOPS = grouped("COUNT(*)", "TUMBLE 7"), grouped("COUNT(*)", "HOP 4 8")
SESSIONS = grouped("COUNT(*)", "SESSION 6")
SOME_SESSIONS = grouped("COUNT(*)", "SESSION 6", "HAVING COUNT(*) BETWEEN 2 AND 4")
BY_TEN = "GROUP BY TUMBLE({}rowtime, INTERVAL '10' SECOND)"
BY_TWENTY = "GROUP BY TUMBLE(rt, INTERVAL '20' SECOND)"
BY_TEN_OF_THEM = "GROUP BY TUMBLE(rt, INTERVAL '10' SECOND)"
EARLY = "EXTRACT(SECOND FROM rowtime)"
LISTS = grouped(f"CollectArray({EARLY}) FILTER (WHERE {EARLY} BETWEEN 10 AND 50)", "SESSION 6")
OTHERS = grouped("CASE WHEN COUNT(*) > 3 THEN 'a' ELSE 'b' END", "SESSION 6")
NEAR = "i.rt BETWEEN b.rowtime - INTERVAL '9' SECOND AND b.rowtime + INTERVAL '9' SECOND"
MEETING = f"ON b.order_number = i.n AND {NEAR}"
BY_COUNT = f"""(SELECT COUNT(*) AS s, n, TUMBLE_ROWTIME(rt, INTERVAL '10' SECOND) AS rt2
    FROM {SESSIONS} {BY_TEN_OF_THEM}, n) AS o"""
TUMBLE_TWENTY = "TUMBLE(rt2, INTERVAL '20' SECOND)"
BY_SESSION = "GROUP BY SESSION(rowtime, INTERVAL '6' SECOND)"
JOINED = """JOIN payments p ON b.order_number = p.order_id
    AND p.rowtime BETWEEN b.rowtime - INTERVAL '5' SECOND AND b.rowtime + INTERVAL '9' SECOND"""
QUICK = {
    "tumble over tumble": f"SELECT MAX(n) AS m, c FROM {TUMBLES} {BY_TWENTY}, c",
    "session filtered by its start": f"""SELECT COUNT(*) AS n, customer_id FROM customer_events
        {BY_SESSION}, customer_id
        HAVING EXTRACT(SECOND FROM SESSION_START(rowtime, INTERVAL '6' SECOND)) > 20""",
    "tumble over some sessions": f"SELECT SUM(n) AS m, COUNT(*) AS s, c FROM {SOME_SESSIONS} {BY_TWENTY}, c",
    "left join": f"SELECT b.fare, p.fee FROM bookings b LEFT {JOINED}",
    "tumble over session by count": f"SELECT COUNT(*) AS s, n FROM {SESSIONS} {BY_TEN_OF_THEM}, n",
    "tumble over unfolded sessions": f"""SELECT e, COUNT(*) AS s FROM {LISTS}, UNNEST(i.n) AS t(e)
        {BY_TEN_OF_THEM}, e""",
}
LONG = {
    "tumble": f"SELECT COUNT(*) AS n FROM customer_events {BY_TEN.format('')}",
    "hop": """SELECT COUNT(*) AS n, customer_id FROM customer_events
        GROUP BY HOP(rowtime, INTERVAL '5' SECOND, INTERVAL '15' SECOND), customer_id""",
    "session": f"SELECT COUNT(*) AS n, customer_id FROM customer_events {BY_SESSION}, customer_id",
    "tumble over tumble by count": f"SELECT COUNT(*) AS m, n FROM {TUMBLES} WHERE n > 1 {BY_TWENTY}, n",
    "session over hop": f"SELECT SUM(n) AS m, c FROM {HOPS} GROUP BY SESSION(rt, INTERVAL '5' SECOND), c",
    "tumble over session": f"SELECT SUM(n) AS m, COUNT(*) AS s, c FROM {SESSIONS} {BY_TWENTY}, c",
    "tumble over all busy sessions": f"SELECT SUM(n) AS m FROM {SESSIONS} WHERE n > 2 {BY_TWENTY}",
    "forwarded sessions": f"SELECT n, c, rt FROM {SESSIONS} WHERE n > 1",
    "hop over tumble over session": f"""SELECT SUM(m) AS a, c FROM (
        SELECT SUM(n) AS m, c, TUMBLE_ROWTIME(rt, INTERVAL '8' SECOND) AS rt2 FROM {SOME_SESSIONS}
        GROUP BY TUMBLE(rt, INTERVAL '8' SECOND), c HAVING SUM(n) > 2) AS o
        GROUP BY HOP(rt2, INTERVAL '10' SECOND, INTERVAL '20' SECOND), c""",
    "join": f"SELECT b.fare, p.fee FROM bookings b {JOINED}",
    "tumble over join": f"SELECT COUNT(*) AS n FROM bookings b {JOINED} {BY_TEN.format('b.')}",
    "tumble over join by partner": f"SELECT COUNT(*) AS n FROM bookings b {JOINED} {BY_TEN.format('p.')}",
    "tumble over left join": f"""SELECT COUNT(*) AS n, COUNT(p.fee) AS m
        FROM bookings b LEFT {JOINED} {BY_TEN.format("b.")}""",
    "records with sessions": f"""SELECT i.n, b.fare
        FROM bookings b LEFT JOIN {SESSIONS} ON b.order_number = i.c AND i.rt
        BETWEEN b.rowtime - INTERVAL '9' SECOND AND b.rowtime + INTERVAL '9' SECOND""",
    "sessions filtered by count": f"""SELECT COUNT(*) AS s FROM {SESSIONS}
        WHERE n BETWEEN 2 AND 4 {BY_TEN_OF_THEM}""",
    "hop over some sessions by count": f"""SELECT SUM(n) AS m, n FROM {SOME_SESSIONS} WHERE n <> 3
        GROUP BY HOP(rt, INTERVAL '5' SECOND, INTERVAL '10' SECOND), n""",
    "groups by count, filtered": f"SELECT s, n, rt2 FROM {BY_COUNT} WHERE s < 2",
    "tumble over groups by count": f"SELECT MAX(s) AS m FROM {BY_COUNT} GROUP BY {TUMBLE_TWENTY}",
    "tumble by count over groups by count": f"""SELECT COUNT(*) AS m, s FROM {BY_COUNT}
        GROUP BY {TUMBLE_TWENTY}, s""",
    "unfolded sessions": f"SELECT e, c, rt FROM {LISTS}, UNNEST(i.n) AS t(e)",
    "tumble over all that is unfolded": f"""SELECT COUNT(*) AS s, COUNT(e) AS m
        FROM {LISTS}, UNNEST(i.n) AS t(e) {BY_TEN_OF_THEM}""",
    "tumble over sessions unfolded with the empty ones": f"""SELECT e, COUNT(*) AS s
        FROM {LISTS} LEFT JOIN UNNEST(i.n) AS t(e) ON TRUE {BY_TEN_OF_THEM}, e""",
    "records joined by the result of a session": f"SELECT i.c FROM bookings b JOIN {OTHERS} {MEETING}",
    "records before a comma with sessions": f"""SELECT b.fare, i.n FROM bookings b, {SESSIONS}
        WHERE b.order_number = i.c AND i.n > 1 AND {NEAR}""",
    "tumble over records with sessions by count": f"""SELECT COUNT(*) AS s, i.n
        FROM bookings b LEFT JOIN {SESSIONS} ON b.order_number = i.c AND {NEAR}
        {BY_TEN.format("b.")}, i.n""",
    "union of groups by count": f"""SELECT COUNT(*) AS s, n FROM {SESSIONS} {BY_TEN_OF_THEM}, n
        UNION ALL SELECT COUNT(*) AS s, 0 AS n FROM bookings GROUP BY TUMBLE(rowtime, INTERVAL '9' SECOND)""",
    "union": f"""SELECT COUNT(*) AS n FROM customer_events {BY_TEN.format("")}
        UNION ALL SELECT COUNT(*) AS n FROM bookings {BY_SESSION}""",
    "union of records and windows": f"""SELECT CAST(fare AS BIGINT) AS n FROM bookings
        UNION ALL SELECT COUNT(*) AS n FROM customer_events {BY_TEN.format("")}""",
    "tumble over union": f"""SELECT SUM(n) AS m FROM (SELECT n, rt FROM {SESSIONS}
        UNION ALL SELECT CAST(fare AS BIGINT) AS n, rowtime AS rt FROM bookings) AS u {BY_TWENTY}""",
}


def window(row: Row) -> tuple[datetime, datetime]:
    return row["__window_start"], row["__window_end"]
