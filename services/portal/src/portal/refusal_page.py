"""The page of who is not let in: a sentence and a link, without a script, in the colours of other pages."""

from __future__ import annotations

from html import escape
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse

_STYLE: Final = """
:root { color-scheme: light dark; font: 14px/1.45 system-ui, sans-serif;
  background: light-dark(#f5f6f8, #0e1115); color: light-dark(#16202c, #e8ecf1); }
main { box-sizing: border-box; max-width: 480px; margin: 12vh auto 0; padding: 18px 22px;
  background: light-dark(#fff, #14181d); border: 1px solid light-dark(#dde1e7, #2b323c);
  border-radius: 10px; }
h1 { font-size: 18px; margin: 0; }
p { margin: 12px 0 0; overflow-wrap: anywhere; }
a { display: inline-flex; align-items: center; min-height: 32px; padding: 5px 12px; border-radius: 7px;
  box-sizing: border-box; background: light-dark(#0b5cad, #6cb2ff); color: light-dark(#fff, #06121f);
  font-weight: 600; text-decoration: none; }
body { margin: 0 10px; }
"""


def build_refusal(request: Request, text: str, status: int, target: str = "/") -> HTMLResponse:
    """Build the page that says why somebody is not let in; its link begins a login that leads to `target`."""
    nonce, link = request.scope["nonce"], f"/auth/login?to={quote(target, safe='')}"
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>Log in · Daggers</title>'
        f'<style nonce="{nonce}">{_STYLE}</style></head><body><main><h1>Daggers</h1><p>{escape(text)}</p>'
        f'<p><a href="{escape(link)}">Try again</a></p></main></body></html>'
    )
    return HTMLResponse(page, status, headers={"cache-control": "no-store"})
