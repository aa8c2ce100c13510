"""What is registered in a page: its fields, what is wrong at them, what is registered then."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from daggers.v1 import access_pb2, access_service_pb2
from google.protobuf import descriptor_pb2
from playwright.sync_api import Route, expect
from tests.portal.conftest import Visit

Opened = Callable[..., Visit]


def describe(folder: Path, package: str) -> Path:
    """A file of descriptors with one message that has a time."""
    from google.protobuf import timestamp_pb2

    files = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    file = files.file.add(name=f"{package}.proto", package=package, syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    field = file.message_type.add(name="Ride").field.add(name="at", number=1)
    field.type, field.label = field.TYPE_MESSAGE, field.LABEL_OPTIONAL
    field.type_name = ".google.protobuf.Timestamp"
    path = folder / "ride.desc"
    path.write_bytes(files.SerializeToString())
    return path


def test_a_schema_and_then_a_stream_of_it_are_registered(visit: Opened, tmp_path: Path) -> None:
    one = visit()
    page = one.open("/schemas", "Schemas")
    page.get_by_role("link", name="New schema").click()
    page.get_by_label("Protobuf files").set_input_files(describe(tmp_path, "rides.v1"))
    expect(page.get_by_text("These would be registered:")).to_be_visible()
    page.get_by_role("button", name="Register schema").click()
    expect(page.get_by_text("These can be used now:")).to_be_visible()
    page.get_by_role("link", name="a stream of it").click()
    expect(page.get_by_role("heading", level=1, name="New stream")).to_be_visible()
    expect(page.get_by_label("Protobuf message of its records")).to_have_value("rides.v1.Ride")
    page.get_by_label("Name").fill("rides")
    page.get_by_label("Cluster whose Kafka has it").select_option("local")
    page.get_by_label("Topics").fill("ride-log, ride-log-2")
    page.get_by_label("Field with the event time").fill("at")
    page.get_by_role("button", name="Register stream").click()
    expect(page.get_by_text("rides is registered.")).to_be_visible()
    page.get_by_role("link", name="Streams").first.click()

    expect(page.get_by_role("row").filter(has_text="ride-log, ride-log-2")).to_contain_text("rides")


def test_sources_are_compiled_and_all_that_is_wrong_stands_at_its_place(
    visit: Opened, tmp_path: Path
) -> None:
    ride, place = tmp_path / "ride.proto", tmp_path / "place.proto"
    ride.write_text(
        'syntax = "proto3";\npackage trips.v1;\nimport "trips/v1/place.proto";\n'
        "// One trip.\nmessage Trip { Place from = 1; }\n"
    )
    place.write_text('syntax = "proto3";\npackage trips.v1;\nmessage Place { strin city = 1; }\n')
    page = visit().open("/new/schema", "New schema")
    files = page.get_by_label("Protobuf files")
    files.set_input_files(ride)
    expect(page.get_by_role("alert")).to_contain_text("ride.proto:3:1 trips/v1/place.proto is imported")
    files.set_input_files([ride, place])
    expect(page.get_by_role("alert")).to_contain_text('place.proto:3:17 "strin" is not defined.')
    place.write_text(place.read_text().replace("strin ", "string "))
    files.set_input_files([ride, place])

    expect(page.get_by_text("These would be registered:")).to_be_visible()
    expect(page.get_by_role("listitem").filter(has_text="trips.v1.Trip")).to_contain_text("One trip.")
    expect(page.get_by_role("button", name="Register schema")).to_be_enabled()


def test_what_is_wrong_with_a_stream_stands_at_its_fields(visit: Opened) -> None:
    one = visit()
    one.refused = {400}
    page = one.open("/new/stream", "New stream")
    page.get_by_label("Name").fill("X")
    page.get_by_label("Cluster whose Kafka has it").select_option("local")
    page.get_by_label("Topics").fill("..")
    page.get_by_label("Protobuf message of its records").select_option("examples.v1.Booking")
    page.get_by_label("Field with the event time").fill("order_number")
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("alert")).to_contain_text("3 things are wrong")
    for name in ("Name", "Topics", "Field with the event time"):
        expect(page.get_by_label(name)).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("Name")).to_be_focused()
    expect(page.get_by_label("Cluster whose Kafka has it")).to_have_attribute("aria-invalid", "false")


def test_a_cluster_is_changed_and_keeps_what_has_no_field(visit: Opened) -> None:
    one = visit()
    page = one.open("/new/cluster", "New cluster")
    page.get_by_label("Name").fill("second")
    page.get_by_label("Kafka: host:port").fill("127.0.0.1:9093")
    page.get_by_text("As JSON").click()
    json = page.get_by_label("As JSON")
    expect(json).to_have_value(re.compile("127.0.0.1:9093"))
    kafka = '{"bootstrapServers": "127.0.0.1:9093", "properties": {"acks": "all"}}'
    json.fill(f'{{"name": "second", "kafka": {kafka}}}')
    page.get_by_role("button", name="Register cluster").click()
    expect(page.get_by_text("second is registered.")).to_be_visible()
    page = one.open("/clusters", "Clusters")
    page.get_by_role("link", name="second").click()
    page.get_by_label("Spark master").fill("local[1]")
    page.get_by_role("button", name="Change cluster").click()
    expect(page.get_by_text("second is registered.")).to_be_visible()
    expect(page.get_by_text("version 2")).to_be_visible()
    page = one.open("/clusters/second", "second")

    expect(page.get_by_label("Spark master")).to_have_value("local[1]")
    page.get_by_text("As JSON").click()
    expect(page.get_by_label("As JSON")).to_have_value(re.compile('"acks": "all"'))


def test_what_is_there_already_is_not_registered_over(visit: Opened) -> None:
    one = visit()
    one.refused = {409}
    page = one.open("/new/cluster", "New cluster")
    page.get_by_label("Name").fill("local")
    page.get_by_label("Kafka: host:port").fill("127.0.0.1:9999")
    page.get_by_role("button", name="Register cluster").click()
    expect(page.get_by_role("alert")).to_contain_text("This was refused")
    page = one.open("/clusters/local", "local")

    expect(page.get_by_label("Kafka: host:port")).to_have_value("127.0.0.1:9092")


def test_a_sink_is_registered_and_listed(visit: Opened) -> None:
    one = visit()
    page = one.open("/sinks", "Sinks")
    expect(page.get_by_role("row").filter(has_text="archive")).to_contain_text("http")
    page.get_by_role("link", name="New sink").click()
    page.get_by_label("Name").fill("orders-hook")
    page.get_by_label("Kind").select_option("http")
    page.get_by_label("Teams that may write there").fill("pricing")
    page.get_by_label("Rows a second").fill("50")
    json = page.get_by_label("As JSON")
    page.get_by_label("Rows a second").blur()
    text = json.input_value()
    json.fill(text.replace('"http": {}', '"http": {"url": "https://hooks.example.com/orders"}'))
    page.get_by_role("button", name="Register sink").click()
    expect(page.get_by_text("orders-hook is registered.")).to_be_visible()
    page.get_by_role("link", name="Sinks").first.click()

    expect(page.get_by_role("row").filter(has_text="orders-hook")).to_contain_text("pricing")


def test_a_file_without_descriptors_is_told_as_such(visit: Opened, tmp_path: Path) -> None:
    one = visit()
    page = one.open("/new/schema", "New schema")
    (tmp_path / "booking.bin").write_bytes(b"\xff\xff")
    page.get_by_label("Protobuf files").set_input_files(tmp_path / "booking.bin")

    expect(page.get_by_role("alert")).to_contain_text("booking.bin is neither a .proto file, a zip of them")


@pytest.mark.parametrize("path", ["/streams/bookings?edit=yes", "/clusters/local"])
def test_who_is_no_administrator_reads_and_is_offered_no_change(visit: Opened, path: str) -> None:
    one = visit()

    def viewer(route: Route) -> None:
        who = access_service_pb2.WhoAmIResponse(
            principal="user:bob",
            roles=[access_service_pb2.TeamRole(team="pricing", role=access_pb2.ROLE_VIEWER)],
        )
        route.fulfill(status=200, body=who.SerializeToString(), content_type="application/proto")

    one.page.route(re.compile("AccessService/WhoAmI"), viewer)
    page = one.open(path, path.rpartition("/")[2].partition("?")[0])
    expect(page.get_by_label("Name")).to_be_disabled()

    expect(page.get_by_role("button", name=re.compile("Change|Check"))).to_have_count(0)


def test_what_is_used_is_not_deleted_and_says_by_whom(visit: Opened) -> None:
    one = visit()
    one.refused = {400}
    page = one.open("/streams/bookings?edit=yes", "bookings")
    page.get_by_role("button", name="Delete stream bookings …").click()
    page.get_by_role("button", name="Delete it").click()
    expect(page.get_by_role("alert")).to_contain_text("completed_bookings")
    page = one.open("/streams", "Streams")

    expect(page.get_by_role("link", name="bookings", exact=True)).to_be_visible()


def test_what_nobody_uses_is_deleted_after_a_second_look(visit: Opened) -> None:
    one = visit()
    page = one.open("/new/reference", "New reference table")
    page.get_by_label("Name").fill("soon_gone")
    page.get_by_label("Format").select_option("CSV")
    page.get_by_label("Where").fill("/tables/soon.csv")
    page.get_by_role("button", name="Register reference table").click()
    expect(page.get_by_text("soon_gone is registered.")).to_be_visible()
    page = one.open("/references/soon_gone", "soon_gone")
    expect(page.get_by_label("Format")).to_have_value("CSV")
    page.get_by_role("button", name="Delete reference table soon_gone …").click()
    page.get_by_role("button", name="Keep it").click()
    page.get_by_role("button", name="Delete reference table soon_gone …").click()
    page.get_by_role("button", name="Delete it").click()

    expect(page.get_by_role("heading", level=1, name="Reference tables")).to_be_visible()
    expect(page.get_by_role("link", name="areas")).to_be_visible()
    expect(page.get_by_role("link", name="soon_gone")).to_have_count(0)


def test_a_message_is_unfolded_and_says_who_reads_it(visit: Opened) -> None:
    one = visit()
    page = one.open("/schemas", "Schemas")
    page.get_by_role("button", name="examples.v1.Booking", exact=True).click()
    shown = page.get_by_role("region", name="The message")
    expect(shown.get_by_role("link", name="bookings", exact=True)).to_be_visible()
    expect(shown.get_by_role("link", name="completed_bookings")).to_be_visible()
    tree = shown.get_by_role("list", name="Fields of examples.v1.Booking")
    expect(tree.get_by_text("locale")).to_have_count(0)
    tree.get_by_text("customer", exact=True).click()

    expect(tree.get_by_text("locale", exact=True)).to_be_visible()
    expect(tree).to_contain_text("DRIVER_ASSIGNED")


def test_a_team_is_registered_its_members_are_changed_and_it_goes(visit: Opened) -> None:
    one = visit()
    one.refused = {400}
    page = one.open("/teams", "Teams")
    page.get_by_role("link", name="New team").click()
    page.get_by_label("Name").fill("allocation")
    page.get_by_label("Where its people are reached").fill("#allocation")
    page.get_by_role("button", name="Register team").click()
    expect(page.get_by_text("allocation is registered.")).to_be_visible()
    page = one.open("/teams/allocation", "allocation")
    members = page.get_by_role("region", name="Members")
    expect(members.get_by_text("Nobody is in it.")).to_be_visible()
    name = members.get_by_label("Name of who is added")
    name.fill("a da")
    members.get_by_role("button", name="Add").click()
    expect(members.get_by_role("alert")).to_contain_text("Principal")
    name.fill("ada@example.org")
    name.press("Enter")
    expect(name).to_have_value("")
    expect(members.get_by_role("alert")).to_have_count(0)
    expect(members.get_by_role("button", name="Add")).to_be_disabled()  # nobody is named
    with page.expect_response(re.compile("AccessService/GrantRole")):
        members.get_by_label("Role of user:ada@example.org").select_option("owner")
    page.reload()
    role = members.get_by_label("Role of user:ada@example.org")
    expect(role.locator("option:checked")).to_have_text("owner")
    members.get_by_role("button", name="Remove user:ada@example.org …").click()
    members.get_by_role("button", name="Keep").click()
    members.get_by_role("button", name="Remove user:ada@example.org …").click()
    members.get_by_role("button", name="Remove user:ada@example.org", exact=True).click()
    expect(members.get_by_text("Nobody is in it.")).to_be_visible()
    page.get_by_role("link", name="Edit").click()
    expect(page.get_by_label("Where its people are reached")).to_have_value("#allocation")
    page.get_by_role("button", name="Delete team allocation …").click()
    page.get_by_role("button", name="Delete it").click()

    expect(page.get_by_role("heading", level=1, name="Teams")).to_be_visible()
    expect(page.get_by_role("link", name="pricing", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="allocation", exact=True)).to_have_count(0)


def test_a_member_that_somebody_else_changed_is_not_changed_over(visit: Opened) -> None:
    one, other = visit(), visit()
    one.refused = {409}
    members = one.open("/teams/pricing", "pricing").get_by_role("region", name="Members")
    members.get_by_label("Name of who is added").fill("bob")
    members.get_by_role("button", name="Add").click()
    role = members.get_by_label("Role of user:bob")
    expect(role.locator("option:checked")).to_have_text("viewer")
    theirs = other.open("/teams/pricing", "pricing").get_by_role("region", name="Members")
    theirs.get_by_label("Role of user:bob").select_option("editor")
    theirs.get_by_label("Name of who is added").fill("eve")
    theirs.get_by_role("button", name="Add").click()
    expect(theirs.get_by_label("Role of user:eve")).to_be_visible()
    role.select_option("owner")
    expect(members.get_by_role("alert")).to_contain_text("This was refused")

    expect(role.locator("option:checked")).to_have_text("editor")
    expect(members.get_by_label("Role of user:eve")).to_be_visible()
