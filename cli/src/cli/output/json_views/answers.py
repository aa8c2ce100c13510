"""The JSON documents of the gateway's answers: the keys of each, which are a contract (tests/golden)."""

import json
from typing import Any

from daggers.v1 import access_pb2, audit_pb2, events_pb2, gateway_pb2, spec_pb2
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from cli.output.json_views.conversion import Conversion, Layout
from cli.output.json_views.events import data
from daggerclient.routesdocument import show as show_routes
from daggerclient.times import iso
from daggerspec.exactjson import loads


def to_json(message: Message) -> dict[str, Any]:
    """Convert an answer, or a part of one, into its JSON document; null is what is not known or not set."""
    return _CONVERSION.convert(message)


def action(number: int) -> str:
    """Write what ApplyDagger did: created, updated, started or unchanged."""
    return _CONVERSION.enum_name(gateway_pb2.ApplyDaggerResponse.Action.DESCRIPTOR, number)


def audit_kind(call: audit_pb2.CallAudited) -> str:
    """Write what a record of the audit is about, in a word, as `--kind` takes it."""
    return _CONVERSION.enum_name(audit_pb2.AuditKind.DESCRIPTOR, call.kind).replace("_", "-")


def _spec(spec: spec_pb2.DaggerSpec) -> Any:
    from daggerclient.daggerfile.show import to_document  # YAML: not for a table of names and phases

    return to_document(spec)


def _sink(sink: spec_pb2.Sink) -> Any:
    from daggerclient.daggerfile.sinks import show  # YAML, too

    return show(sink)


def _secret(reference: spec_pb2.SecretRef) -> Any:
    from daggerclient.daggerfile.sinks import shown_secret  # YAML, too

    return shown_secret(reference)


def _by_team(sink: spec_pb2.RegisteredSink) -> Any:
    from daggerclient.sinkfile import shown_by_team  # YAML, too

    return shown_by_team(sink)


def _receivers(team: access_pb2.Team) -> Any:
    from daggerclient.teamfile import receivers_shown  # YAML, too

    return receivers_shown(team.receivers)


def _quotas(team: access_pb2.Team) -> Any:
    from daggerclient.teamfile import quotas_shown  # YAML, too

    return quotas_shown(team.quotas)


def _conditions(team: access_pb2.Team) -> Any:
    from daggerclient.daggerfile.conditions import show  # YAML, too

    return show(team.conditions)


def _seconds(span: Duration) -> float:
    return span.ToTimedelta().total_seconds()


def _parse_json(text: str) -> Any:
    """Parse a JSON text; return the text itself where it was cut, null where it is empty."""
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text


def _costs(usage: gateway_pb2.GetTeamUsageResponse) -> list[dict[str, Any]]:
    return [{"name": cost.dagger} | to_json(cost) for cost in usage.daggers]


def _limit(use: gateway_pb2.QuotaUse, name: str) -> int | None:
    return getattr(use.quota, name) if use.quota.HasField(name) else None  # type: ignore[arg-type] # soft, hard


def _registered_value(host: gateway_pb2.Host, name: str) -> Any:
    return getattr(host.registered, name) if host.HasField("registered") else None


def silence_s(move: gateway_pb2.HostMove) -> float | None:
    """Return the seconds from a dagger's last batch on the host to its first one since; None: none is yet."""
    if not (move.HasField("last_commit") and move.HasField("first_commit")):
        return None
    silence = move.first_commit.ToNanoseconds() - move.last_commit.ToNanoseconds()
    return max(0.0, round(silence / 1e9, 1))


def _suggestions(
    answer: gateway_pb2.SampleStreamResponse | gateway_pb2.DiscoverTopicsResponse,
) -> dict[str, Any]:
    return {topic.topic: topic.suggestion or None for topic in answer.missing_topics}


def _error(answer: Message, name: str) -> dict[str, Any] | None:
    error: events_pb2.DaggerError = getattr(answer, name)
    return {"reason": error.reason, "detail": error.detail} if answer.HasField(name) else None


_CONVERSION = Conversion(
    leaves={
        "google.protobuf.Timestamp": iso,
        "google.protobuf.Duration": _seconds,
        "daggers.v1.DaggerSpec": _spec,
        "daggers.v1.Sink": _sink,
        "daggers.v1.SecretRef": _secret,
        "daggers.v1.AlertRoute": show_routes,
    },
    lowercase=frozenset(
        {
            *("ApplyDaggerResponse.Action", "PlanDaggerResponse.Effect", "PlanDaggerResponse.Replacement"),
            *(
                "AuditKind",
                "HostGoneCause",
                "OutputColumn.Role",
                "ReferenceTable.Format",
                "Role",
                "SinkStep.Outcome",
            ),
        }
    ),
    unstripped=frozenset({"Phase"}),
    layouts={
        "AccountToken": Layout("id expire_time"),
        "Alert": Layout(
            "dagger condition incident severity domain? summary next? since! fire_time! until resolution?"
            " value limit unit? generation team deliveries sequence rule? key values silence acknowledgement"
            " id labels holds_back cause?"
        ),
        "AcknowledgeAlertsResponse": Layout("alerts sequence"),
        "UnacknowledgeAlertsResponse": Layout("alerts sequence"),
        "AlertAcknowledgement": Layout("author? time! comment? until"),
        "AlertDestination": Layout(
            "revision path why receivers group_by group_wait! group_interval! repeat_interval! windows"
            " escalate_after! escalate_to"
        ),
        "RoutesRevision": Layout("team revision routes actor? message? time sequence"),
        "ReroutedAlert": Layout("alert! before after"),
        "ApplyRoutesResponse": Layout("revision! changed rerouted sequence"),
        "DeleteRoutesResponse": Layout("revision! sequence"),
        "ExplainedRoute": Layout("destination! group first_notice"),
        "ExplainRouteResponse": Layout("team revision routes receivers platform silence"),
        "AlertSilence": Layout("id? team? matchers begin! end! author? reason"),
        "AlertDelivery": Layout("receiver state attempts reason? detail? not_before"),
        "AuditRecord": Layout("time! sequence"),
        "CallAudited": Layout(
            "kind principal? peer? method subject? teams allowed refused reason detail asked sensitive calls"
            " call_id",
            kind=audit_kind,
            asked=lambda call: _parse_json(call.asked),
            calls=lambda call: max(call.calls, 1),
        ),
        "Cluster": Layout(
            "name kafka! spark_master influx! playground executors! executor_limits! spark_web_url?"
        ),
        "ClusterUse": Layout("daggers drivers room"),
        "Company": Layout("daggers alone_because?"),
        "ColumnChange": Layout("before after"),
        "CreateSilenceResponse": Layout("silence! alerts sequence"),
        "Dagger": Layout(
            "name phase desired generation version warnings last_error observed_generation observed_version"
            " last_good_version? attempt not_before create_time! update_time! create_sequence creator updater"
            " driver references=reference_versions phase_time restarts last_exit shadow company vitals spec!"
        ),
        "DaggerCost": Layout(
            "age_s=age launch_memory_mib cpu_seconds cpu_seconds_per_day memory_bytes records records_per_day"
            " state_bytes records_per_second rows_per_minute"
        ),
        "DaggerError": Layout("domain reason detail retryable"),
        "DescribeArchiveResponse": Layout("sink path files bytes first_hour last_hour last_write more"),
        "DescribeStreamResponse": Layout(
            "stream! columns truncated sequence partitions records_per_second topics_unchecked? first_query?"
        ),
        "Destination": Layout("name team"),
        "DestinationConflict": Layout("dagger team destination owned!"),
        "DiscoverTopicsResponse": Layout("topics missing_topics cut?", missing_topics=_suggestions),
        "DiscoveredTopic": Layout(
            "topic partitions offsets records_per_second retention_s=retention sampled fits streams"
        ),
        "DriverExit": Layout("generation time! code error"),
        "DriverHandle": Layout("host pid ui_url run_dir spare process_dir?"),
        "DriverShadow": Layout("generation version time! driver boundary"),
        "Event": Layout(
            "sequence id type source subject time! data refused version", data=lambda event: data(event.data)
        ),
        "LearningRule": Layout("rule until"),
        "Freshness": Layout("rows p50_ms p95_ms p99_ms waiting_since"),
        "Spool": Layout(
            "rows bytes since! drained rows_per_second paused error",
            error=lambda spool: _error(spool, "error"),
        ),
        "GetReplayResponse": Layout(
            "replay_id records outcomes finished last_error given_up",
            outcomes=lambda answer: dict(sorted(answer.outcomes.items())),
            last_error=lambda answer: _error(answer, "last_error"),
            given_up=lambda answer: _error(answer, "error"),
        ),
        "GetTeamUsageResponse": Layout("quotas=uses daggers sequence", daggers=_costs),
        "HealthWarning": Layout("code object message domain? since! next"),
        "Host": Layout(
            "name epoch leads daggers boot_id version cores memory_mib shared_checkpoints labels lacks"
            " register_time heard_time gone cordon room_left",
            room_left=lambda host: host.room_left if host.HasField("room_left") else None,
            boot_id=lambda host: _registered_value(host, "boot_id"),
            version=lambda host: _registered_value(host, "version"),
            cores=lambda host: _registered_value(host, "cores"),
            memory_mib=lambda host: _registered_value(host, "memory_mib"),
            shared_checkpoints=lambda host: _registered_value(host, "shared_checkpoints"),
            labels=lambda host: dict(host.registered.labels),
            lacks=lambda host: list(host.registered.lacks),
        ),
        "HostCordon": Layout("time! actor message drains moves"),
        "HostLoss": Layout("time! cause? actor message"),
        "HostMove": Layout(
            "dagger generation stop_time! last_commit to_host first_commit silence_s", silence_s=silence_s
        ),
        "HostedDagger": Layout("name team phase keeps_state critical stays"),
        "InfluxAddress": Layout("url org bucket token"),
        "KafkaAddress": Layout("bootstrap_servers properties secret_properties"),
        "ListedSilence": Layout("silence! ended_by? alerts"),
        "Member": Layout("principal role"),
        "MessageFit": Layout(
            "message score example problem?", example=lambda fit: loads(fit.example) if fit.example else None
        ),
        "OutputColumn": Layout("name role key type"),
        "PlanDaggerResponse": Layout(
            "action effect reason version replacement? replacement_reason recomputed_since reads"
            " reads_unchecked reading_time_s=reading_time lost_windows cost launch_memory_mib changes columns"
            " sinks sinks_untried company losses warnings"
        ),
        "PlannedRange": Layout("topic partition begin end first"),
        "PlannedReads": Layout(
            "records records_since closed whole_from missing ranges",
            records_since=lambda reads: reads.records_since if reads.HasField("since") else None,
        ),
        "PlannedWindows": Layout("begin! end! count"),
        "Quarantined": Layout(
            "id topic sink partition offset stage reason detail message decoded_prefix generation record_time"
            " time! key value truncated",
            decoded_prefix=lambda record: _parse_json(record.decoded_prefix),
        ),
        "ExpireSilenceResponse": Layout("silence! sequence"),
        "Executors": Layout("count cores memory_mib cores_max"),
        "GetQuarantinedResponse": Layout(
            "decoded undecodable", decoded=lambda answer: _parse_json(answer.decoded)
        ),
        "QuarantineForecast": Layout("outcome reason records detail"),
        "QuarantineGroup": Layout("dagger stage reason sink records oldest! expiring"),
        "QuarantineStatus": Layout(
            "state attempts outcome_reason=reason outcome_detail=detail replay_id expire_time!"
        ),
        "QuotaUse": Layout(
            "name used soft hard", soft=lambda use: _limit(use, "soft"), hard=lambda use: _limit(use, "hard")
        ),
        "RateLimit": Layout("rows_per_second requests_per_second max_in_flight"),
        "ReferenceTable": Layout("name format location"),
        "RegisteredSink": Layout("name sink! teams limit! exempt by_team", by_team=_by_team),
        "ReplayQuarantinedResponse": Layout("replay_id sequence records forecast"),
        "Revision": Layout("version sequence time! actor message changes spec!"),
        "SampleStreamResponse": Layout(
            "partitions records_per_second records missing_topics cut?", missing_topics=_suggestions
        ),
        "SampledRecord": Layout(
            "topic partition offset time key size value problem?",
            value=lambda record: loads(record.json) if record.HasField("json") else None,
        ),
        "Secret": Layout("name team place addresses"),
        "SensitiveConflict": Layout("dagger team updater stream path field line? column?"),
        "ServiceAccount": Layout("name team description tokens"),
        "SinkEffect": Layout("field kind seen reason detail"),
        "SinkStep": Layout("sink what outcome reason detail"),
        "SpecChange": Layout("field before after"),
        "Stream": Layout("name cluster topics message time_field sensitive writer"),
        "StreamColumn": Layout(
            "path type protobuf_type is_repeated enum_values example comment",
            enum_values=lambda column: {value.name: value.number for value in column.enum_values},
        ),
        "StreamGrant": Layout("stream restricted teams read_sensitive"),
        "Team": Layout(
            "name contact members receivers quotas isolation? shares_platform conditions",
            receivers=_receivers,
            quotas=_quotas,
            conditions=_conditions,
        ),
        "TeamRole": Layout("team role"),
        "Vitals": Layout(
            "generation heard_time watermark last_commit last_progress records_per_s rows_per_s lag records"
            " rows late_rows recent_late_rows late_windows recent_late_windows late_rows_by_table quarantined"
            " recent_quarantined state_rows memory_bytes? freshness spools"
            " learning_rules warnings"
        ),
        "WhoAmIResponse": Layout("principal groups administrator roles expire_time"),
    },
)
