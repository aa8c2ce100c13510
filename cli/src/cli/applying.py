"""Bring a dagger to what its file says: create it, revise it, run it again, or leave it alone."""

from dataclasses import dataclass

from daggers.v1 import gateway_pb2

from cli.errors import RefusedError
from cli.gateway import Gateway
from daggerclient import Written
from daggerclient.daggerfile.parse import DaggerFile


@dataclass(frozen=True)
class Applied:
    """What was done: created, updated, started or unchanged; and what was written, if anything."""

    action: str
    written: Written


def apply(gateway: Gateway, file: DaggerFile) -> Applied:
    """Apply one document of a dagger file. What is so already is not asked for again."""
    current = find(gateway, file.name)
    if current is None:
        created = gateway.call(
            gateway.daggers.CreateDagger, gateway_pb2.CreateDaggerRequest(name=file.name, spec=file.spec)
        )
        return Applied("created", Written(created.dagger, created.sequence))
    request = gateway_pb2.UpdateDaggerRequest(
        name=file.name, spec=file.spec, expected_version=current.version, validate_only=True
    )
    # the check answers with the defaults filled in, so that two specifications can be compared
    checked = gateway.call(gateway.daggers.UpdateDagger, request)
    if checked.dagger.spec != current.spec:
        request.ClearField("validate_only")
        updated = gateway.call(gateway.daggers.UpdateDagger, request)
        return Applied("updated", Written(updated.dagger, updated.sequence))
    if current.desired == gateway_pb2.DESIRED_RUNNING and current.phase != gateway_pb2.FAILED:
        return Applied("unchanged", Written(current, 0))
    started = gateway.call(
        gateway.daggers.StartDagger,
        gateway_pb2.StartDaggerRequest(name=file.name, expected_version=current.version),
    )
    return Applied("started", Written(started.dagger, started.sequence))


def check(gateway: Gateway, file: DaggerFile) -> None:
    """Raise RefusedError with every finding if the gateway would refuse the document; changes nothing."""
    if find(gateway, file.name) is None:
        gateway.call(
            gateway.daggers.CreateDagger,
            gateway_pb2.CreateDaggerRequest(name=file.name, spec=file.spec, validate_only=True),
        )
    else:
        gateway.call(
            gateway.daggers.UpdateDagger,
            gateway_pb2.UpdateDaggerRequest(name=file.name, spec=file.spec, validate_only=True),
        )


def find(gateway: Gateway, name: str) -> gateway_pb2.Dagger | None:
    """The dagger of that name, if there is one."""
    try:
        return gateway.get(name)
    except RefusedError as refusal:
        # a name that cannot be a dagger's is for Create to refuse, with everything else that is wrong
        if refusal.detail.get("code") in ("NOT_FOUND", "INVALID_ARGUMENT"):
            return None
        raise
