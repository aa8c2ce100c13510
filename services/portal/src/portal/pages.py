"""Serve the built pages: index.html for every address, and its files, which the build has compressed."""

from __future__ import annotations

import mimetypes
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response

STATIC: Final = Path(__file__).parent / "static"
"""Folder that `web/build.py` writes to."""
NOT_BUILT: Final = "The pages of this portal are not built: the target web of its Makefile builds them."
_CODINGS: Final = (("br", "br"), ("gzip", "gz"))
_EMPTY_NONCE: Final = 'name="csp-nonce" content=""'


class Pages:
    """The files of one folder."""

    def __init__(self, folder: Path = STATIC) -> None:
        self._folder = folder

    @property
    def built(self) -> bool:
        """True where the pages were built."""
        return (self._folder / "index.html").is_file()

    async def index(self, request: Request) -> Response:
        """Serve the page. CodeMirror writes a <style> of its own with this response's nonce, which it finds
        in the page.
        """
        if not self.built:
            return PlainTextResponse(NOT_BUILT, 503)
        text = (self._folder / "index.html").read_text(encoding="utf-8")
        nonce = request.scope["nonce"]
        return Response(
            text.replace(_EMPTY_NONCE, f'name="csp-nonce" content="{nonce}"'),
            media_type="text/html",
            headers={"cache-control": "no-store"},
        )

    async def asset(self, request: Request) -> Response:
        """Serve a file whose name changes with its content; compressed where the browser accepts that."""
        name = request.path_params["name"]
        file = self._folder / "assets" / name
        if file.parent != self._folder / "assets" or not file.is_file():
            return PlainTextResponse("There is no such file.", 404)
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        headers = {"vary": "accept-encoding", "cache-control": "public, max-age=31536000, immutable"}
        takes = _codings(request.headers.get("accept-encoding", ""))
        for coding, ending in _CODINGS:
            packed = file.with_name(f"{name}.{ending}")
            if coding in takes and packed.is_file():
                headers["content-encoding"], file = coding, packed
                break
        return FileResponse(file, media_type=kind, headers=headers)


def _codings(accepted: str) -> set[str]:
    """Return the codings of an Accept-Encoding header whose weight is not zero."""
    weighted = (coding.replace(" ", "").lower().partition(";q=") for coding in accepted.split(","))
    return {name for name, _, weight in weighted if weight.strip("0.") or not weight}
