"""`daggers whoami`: as whom the gateway is called, and until when."""

from daggers.v1 import gateway_pb2

from cli.framework.group import group
from cli.framework.session import Session, command
from cli.output.json_views.answers import to_json
from daggerclient.teamfile import role_name
from daggerclient.times import iso

app = group()


@command(app, "whoami", example="daggers whoami")
def whoami(session: Session) -> None:
    """Print your groups, and when the token expires."""
    with session.connect() as gateway:
        answer = gateway.call(gateway.access.WhoAmI, gateway_pb2.WhoAmIRequest())
        address = gateway.address
    kept = None if session.settings.token_file else session.logins.read(address)
    renews = kept is not None and bool(kept.refresh_token)

    def text(_: object) -> None:
        out = session.out
        out.line(sentence(answer))
        if answer.groups:
            out.line(f"in {', '.join(answer.groups)}")
        if answer.HasField("expire_time"):
            out.line(f"until {iso(answer.expire_time)}{', renewed by itself' if renews else ''}")

    session.out.show(to_json(answer) | {"gateway": address, "renews": renews}, text)


def sentence(answer: gateway_pb2.WhoAmIResponse) -> str:
    """Who somebody is, and as what."""
    said = ["administrator"] if answer.administrator else []
    said += [f"{role_name(role.role)} of {role.team}" for role in answer.roles]
    return f"{answer.principal}: {', '.join(said) or 'no role'}"
