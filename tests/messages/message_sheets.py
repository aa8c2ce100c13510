"""Draws what each receiver shows of a message, as HTML: one sheet for a message.

Mail is the message's own HTML. Slack's text is drawn by the rules of its mrkdwn, PagerDuty as the fields of
an incident, webhooks and Alertmanager as the JSON that they get.
"""

from __future__ import annotations

import base64
import json
import re
from datetime import UTC, datetime
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from html import escape
from typing import Any, Final

from daggerspec.receivers import takes_announcements
from health_monitor import receivers
from health_monitor.page import Page
from health_monitor.receivers import HttpRequest, MailRequest, Request

_EMOJIS: Final = {
    "rotating_light": "red",
    "red_circle": "orangered",
    "warning": "gold",
    "white_check_mark": "green",
}
"""Colours in place of Slack's pictures, which fonts of a machine may lack."""
_SHORTCODE: Final = re.compile(r":([a-z_]+):")
_DATE: Final = re.compile(r"<!date\^(\d+)\^[^|>]*\|[^>]*>")
_LINK: Final = re.compile(r"<(https?://[^|>]+)\|([^>]*)>")
_CODE: Final = re.compile(r"`([^`\n]+)`")
_BOLD: Final = re.compile(r"(?<![\w*])\*([^*\n]+)\*(?![\w*])")
_STYLE: Final = """
body { margin: 0; padding: 16px; background: #e8e8e8; font: 14px/1.45 sans-serif; color: #222; }
h1 { font-size: 18px; margin: 0 0 12px; }
h2 { font-size: 12px; margin: 0 0 8px; color: #777; }
.row { display: flex; gap: 12px; align-items: flex-start; margin-bottom: 12px; }
.card { background: #fff; padding: 12px; border-radius: 6px; overflow-wrap: anywhere; }
.slack { width: 430px; }
.pagerduty { width: 400px; }
.email { width: 640px; }
.json { width: 720px; }
pre { margin: 0; font: 11px/1.4 monospace; white-space: pre-wrap; overflow-wrap: anywhere; }
pre { max-height: 640px; overflow: hidden; }
code { background: #f4f4f4; color: #c01343; border: 1px solid #ddd; border-radius: 3px; padding: 0 3px; }
td { vertical-align: top; padding: 1px 10px 1px 0; }
td:first-child { color: #777; white-space: nowrap; }
button { margin: 6px 6px 0 0; }
"""


def draw_sheet(name: str, page: Page) -> str:
    """Draw what every kind of receiver shows of a message; return HTML."""
    is_announcement = page.notify.ending is not None
    kinds = [kind for kind in receivers.names() if takes_announcements(kind) or not is_announcement]
    cards = {kind: _draw_card(kind, build_request(kind, page)) for kind in kinds}
    first = "".join(cards.pop(kind, "") for kind in ("slack", "pagerduty", "email"))
    return (
        f'<!DOCTYPE html><html><head><meta charset="utf-8"><style>{_STYLE}</style></head><body>'
        f'<h1>{escape(name)}</h1><div class="row">{first}</div>'
        f'<div class="row">{"".join(cards.values())}</div>'
        "</body></html>"
    )


def build_request(kind: str, page: Page) -> Request:
    """Build the request of a kind, with the example settings of that kind."""
    module = receivers.kind(kind)
    fields = module.Settings.model_fields.items()
    examples: dict[str, Any] = {name: info.examples[0] for name, info in fields if info.examples}
    return module.request(page, module.Settings(**examples))


def _draw_card(kind: str, request: Request) -> str:
    if isinstance(request, MailRequest):
        return _card("email", "email", _draw_mail(request.message))
    document = _read(request)
    match kind:
        case "slack":
            return _card("slack", kind, _draw_slack(document))
        case "pagerduty":
            return _card("pagerduty", kind, _draw_pagerduty(document))
        case _:
            text = json.dumps(document, indent=1, ensure_ascii=False)
            return _card("json", kind, f"<pre>{escape(text)}</pre>")


def _card(style: str, title: str, content: str) -> str:
    return f'<div class="card {style}"><h2>{title}</h2>{content}</div>'


def _read(request: HttpRequest) -> Any:
    return json.loads(request.body)


def _draw_mail(message: bytes) -> str:
    mail = message_from_bytes(message, _class=EmailMessage, policy=default)
    html = mail.get_body(("html",))
    assert html is not None
    content: str = html.get_content()
    for part in mail.walk():
        if part.get_content_maintype() == "image":
            data = base64.b64encode(part.get_content()).decode()
            place = part["Content-ID"].strip("<>")
            content = content.replace(f"cid:{place}", f"data:image/png;base64,{data}")
    head = f"<p><b>{escape(mail['Subject'].strip())}</b><br><small>{escape(mail['From'])}</small></p>"
    grow = "this.style.height = this.contentDocument.body.scrollHeight + 24 + 'px'"
    style = "border:0;width:100%"
    return f'{head}<iframe srcdoc="{escape(content)}" style="{style}" onload="{grow}"></iframe>'


def _draw_slack(document: dict[str, Any]) -> str:
    blocks = document.get("blocks")
    if not blocks:
        return draw_mrkdwn(document["text"])
    return "".join(map(_draw_block, blocks))


def _draw_block(block: dict[str, Any]) -> str:
    match block["type"]:
        case "section":
            texts = [*filter(None, [block.get("text")]), *block.get("fields", ())]
            return "".join(f"<p>{draw_mrkdwn(text['text'])}</p>" for text in texts)
        case "actions":
            return "".join(f"<button>{escape(one['text']['text'])}</button>" for one in block["elements"])
        case "context":
            return "".join(f"<small>{draw_mrkdwn(one['text'])}</small>" for one in block["elements"])
        case other:
            return f"<pre>{escape(other)}</pre>"


def draw_mrkdwn(text: str) -> str:
    """Draw Slack's mrkdwn as HTML: its text has & < > escaped already, as HTML has them."""
    text = _DATE.sub(lambda match: _draw_date(int(match[1])), text)
    text = _LINK.sub(r'<a href="\1">\2</a>', text)
    text = _CODE.sub(r"<code>\1</code>", text)
    text = _BOLD.sub(r"<b>\1</b>", text)
    text = _SHORTCODE.sub(_draw_emoji, text)
    return text.replace("\n", "<br>")


def _draw_emoji(match: re.Match[str]) -> str:
    colour = _EMOJIS.get(match[1])
    return match[0] if colour is None else f'<span style="color: {colour}">●</span>'


def _draw_date(seconds: int) -> str:
    """Draw a time as Slack does for a reader in UTC."""
    return f"{datetime.fromtimestamp(seconds, UTC):%b %-d, %Y %-I:%M:%S %p}"


def _draw_pagerduty(event: dict[str, Any]) -> str:
    action = event["event_action"]
    if action != "trigger":
        return f"<p><b>{action}</b> of the incident with the key</p><pre>{escape(event['dedup_key'])}</pre>"
    payload = event["payload"]
    fields = {
        "severity": payload["severity"],
        "occurred": payload["timestamp"],
        "source": payload["source"],
        "group": payload["group"],
        "class": payload["class"],
        **payload["custom_details"],
    }
    rows = "".join(
        f"<tr><td>{escape(key)}</td><td>{escape(str(value))}</td></tr>" for key, value in fields.items()
    )
    link = f'<a href="{escape(event["client_url"])}">View in Daggers</a>' if "client_url" in event else ""
    return f"<p><b>{escape(payload['summary'])}</b></p><p>{link}</p><table>{rows}</table>"
