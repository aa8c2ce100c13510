"""From .proto files to a stream and a dagger on it, in one page; the test says what the topics hold."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from daggers.v1 import catalog_service_pb2 as pb
from daggers.v1 import spec_pb2
from playwright.sync_api import Page, Route, expect
from tests.portal.answers import answer, answer_once
from tests.portal.axe import violations
from tests.portal.conftest import Visit

Opened = Callable[..., Visit]
DISCOVER = re.compile("CatalogService/DiscoverTopics")
PROTO = """\
syntax = "proto3";
package {package};
import "google/protobuf/timestamp.proto";
enum State {{ UNKNOWN = 0; OPEN = 1; DONE = 2; }}
// One tour.
message Tour {{
  string id = 1;
  State state = 2;
  google.protobuf.Timestamp created_at = 3;
  google.protobuf.Timestamp event_time = 4;
}}
message Note {{ string text = 1; }}
"""


def proto(folder: Path, package: str) -> Path:
    path = folder / "tour.proto"
    path.write_text(PROTO.format(package=package))
    return path


def fitting(topic: str, message: str, score: float = 1.0, **more: object) -> pb.DiscoveredTopic:
    fit = pb.MessageFit(
        message=message, score=score, example='{"id": "t-9"}', earlier_examples=['{"id": "t-8"}']
    )
    return pb.DiscoveredTopic(topic=topic, partitions=4, records_per_second=2.5, fits=[fit], **more)  # type: ignore[arg-type]


def discovering(page: Page, *topics: pb.DiscoveredTopic, cut: str = "") -> list[pb.DiscoverTopicsRequest]:
    """Answer which topics there are; return the requests for them."""
    requests = []

    def answer_topics(route: Route) -> None:
        body = route.request.post_data_buffer or b""
        requests.append(pb.DiscoverTopicsRequest.FromString(body[5:]))
        answer(route, [pb.DiscoverTopicsResponse(topics=topics, topics_read=3, topics_total=3, cut=cut)])

    page.route(DISCOVER, answer_topics)
    return requests


def test_topics_that_fit_are_found_and_a_dagger_begins_without_leaving_the_page(
    visit: Opened, tmp_path: Path
) -> None:
    page = visit().open("/new/schema", "New schema")
    topics = [
        fitting("weak-log", "tours.v1.Note", 0.6),
        fitting("tour-log", "tours.v1.Tour"),
        pb.DiscoveredTopic(topic="other"),
    ]
    requests = discovering(page, *topics, cut="7 topics were not looked into")
    page.get_by_label("Protobuf files").set_input_files(proto(tmp_path, "tours.v1"))
    found = page.get_by_role("region", name="Topics that fit")
    expect(found.get_by_role("radio")).to_have_count(2)
    expect(found.get_by_role("radio").first).to_be_checked()
    expect(found).to_contain_text("tour-log")
    expect(found).to_contain_text("local · 100 % of the bytes fit · 4 partitions · 2.5 records/s")
    expect(found).to_contain_text("7 topics were not looked into")
    records = page.get_by_role("region", name="Newest records")
    expect(records.locator("pre")).to_have_text([re.compile("t-9"), re.compile("t-8")])
    expect(page.get_by_role("button", name="Register stream")).to_have_count(0)
    page.get_by_role("button", name="Register schema").click()
    expect(page.get_by_label("Name of the stream")).to_have_value("tour-log")
    expect(page.get_by_label("Field with the event time")).to_have_value("event_time")
    page.get_by_label("Name of the stream").fill("tours")
    page.get_by_role("button", name="Register stream").click()
    expect(page.get_by_text("tours is registered.")).to_be_visible()
    expect(page.get_by_role("heading", level=1, name="New schema")).to_be_visible()
    page.get_by_role("link", name="New dagger on it").click()

    expect(page.get_by_role("checkbox", name="tours")).to_be_checked()
    expect(page.locator(".cm-content")).to_contain_text("SELECT state AS tag_state")
    page.get_by_placeholder("Name", exact=True).fill("tours_a_minute")
    expect(page.get_by_text("Ready to run")).to_be_visible()
    [request] = requests
    assert (request.cluster, request.examples, list(request.schema.messages)) == (
        "local", 5, ["tours.v1.Note", "tours.v1.Tour"],
    )  # fmt: skip


def test_a_cluster_whose_kafka_is_away_hides_no_topic_of_another(visit: Opened, tmp_path: Path) -> None:
    page = visit().open("/new/schema", "New schema")
    kafka = spec_pb2.KafkaAddress(bootstrap_servers="127.0.0.1:1")
    clusters = [spec_pb2.Cluster(name=name, kafka=kafka) for name in ("away", "local")]
    page.route(
        re.compile("CatalogService/ListClusters"),
        lambda route: answer_once(route, pb.ListClustersResponse(clusters=clusters)),
    )

    def answer_topics(route: Route) -> None:
        request = pb.DiscoverTopicsRequest.FromString((route.request.post_data_buffer or b"")[5:])
        if request.cluster == "away":
            return answer(route, [], unavailable="Kafka at 127.0.0.1:1 does not answer")
        return answer(route, [pb.DiscoverTopicsResponse(topics=[fitting("near-log", "apart.v1.Tour")])])

    page.route(DISCOVER, answer_topics)
    page.get_by_label("Protobuf files").set_input_files(proto(tmp_path, "apart.v1"))
    found = page.get_by_role("region", name="Topics that fit")
    expect(found.get_by_role("radio")).to_be_checked()
    expect(found).to_contain_text("near-log")
    expect(found).to_contain_text("away: Kafka at 127.0.0.1:1 does not answer.")


def test_where_no_topic_fits_a_person_names_it_or_looks_again(visit: Opened, tmp_path: Path) -> None:
    page = visit().open("/new/schema", "New schema")
    discovering(page, pb.DiscoveredTopic(topic="other"))
    page.get_by_label("Protobuf files").set_input_files(proto(tmp_path, "alone.v1"))
    found = page.get_by_role("region", name="Topics that fit")
    expect(found).to_contain_text("No topic has records of these messages.")
    page.unroute(DISCOVER)
    discovering(page, fitting("late-log", "alone.v1.Tour"))
    found.get_by_role("button", name="Look again").click()

    expect(found.get_by_role("radio")).to_be_checked()
    page.unroute(DISCOVER)
    discovering(page)
    found.get_by_role("button", name="Look again").click()
    page.get_by_role("button", name="Register schema").click()
    found.get_by_role("link", name="Name the topic yourself").click()
    expect(page.get_by_role("heading", level=1, name="New stream")).to_be_visible()


def test_a_message_without_a_time_and_a_topic_that_is_a_stream_are_told(
    visit: Opened, tmp_path: Path
) -> None:
    page = visit().open("/new/schema", "New schema")
    discovering(
        page,
        fitting("note-log", "timeless.v1.Note"),
        fitting("booking-log", "timeless.v1.Tour", 0.9, streams=["bookings"]),
    )
    page.get_by_label("Protobuf files").set_input_files(proto(tmp_path, "timeless.v1"))
    page.get_by_role("button", name="Register schema").click()
    expect(
        page.get_by_text("timeless.v1.Note has no field of type google.protobuf.Timestamp")
    ).to_be_visible()
    page.get_by_role("link", name="New dagger on bookings").click()

    expect(page.get_by_role("checkbox", name="bookings")).to_be_checked()


def test_a_stream_that_is_refused_says_so_at_its_field(visit: Opened, tmp_path: Path) -> None:
    one = visit()
    one.refused = {400}
    page = one.open("/new/schema", "New schema")
    discovering(page, fitting("walk-log", "refused.v1.Tour"))
    page.get_by_label("Protobuf files").set_input_files(proto(tmp_path, "refused.v1"))
    page.get_by_role("button", name="Register schema").click()
    name = page.get_by_label("Name of the stream")
    name.fill("X")
    page.get_by_role("button", name="Register stream").click()

    expect(name).to_have_attribute("aria-invalid", "true")
    name.fill("walks")
    expect(name).to_have_attribute("aria-invalid", "false")


def test_the_page_has_no_violation_at_any_step(visit: Opened, packages: Path, tmp_path: Path) -> None:
    page = visit(axe=True).open("/new/schema", "New schema")
    discovering(page, fitting("axe-log", "axe.v1.Tour"), fitting("axe-log-2", "axe.v1.Note", 0.7))
    page.get_by_label("Protobuf files").set_input_files(proto(tmp_path, "axe.v1"))
    expect(page.get_by_role("radio")).to_have_count(2)
    found = {"topics": violations(page, packages)}
    page.get_by_role("button", name="Register schema").click()
    expect(page.get_by_label("Name of the stream")).to_be_visible()
    found["stream"] = violations(page, packages)
    page.get_by_role("button", name="Register stream").click()
    expect(page.get_by_role("link", name="New dagger on it")).to_be_visible()
    found["registered"] = violations(page, packages)

    assert {step: wrong for step, wrong in found.items() if wrong} == {}
