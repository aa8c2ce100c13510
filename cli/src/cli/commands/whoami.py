"""`daggers whoami`: the principal of calls, and the end of its token."""

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
    login = None if session.settings.token_file else session.logins.read(address)
    renews = login is not None and bool(login.refresh_token)

    def text(_: object) -> None:
        out = session.out
        out.line(sentence(answer))
        if answer.groups:
            out.line(f"in {', '.join(answer.groups)}")
        if answer.HasField("expire_time"):
            out.line(f"until {iso(answer.expire_time)}{', renewed by itself' if renews else ''}")

    session.out.show(to_json(answer) | {"gateway": address, "renews": renews}, text)


def sentence(answer: gateway_pb2.WhoAmIResponse) -> str:
    """Format the principal and its roles."""
    roles = ["administrator"] if answer.administrator else []
    roles += [f"{role_name(role.role)} of {role.team}" for role in answer.roles]
    return f"{answer.principal}: {', '.join(roles) or 'no role'}"
