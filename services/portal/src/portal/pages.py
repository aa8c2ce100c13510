"""The built pages: index.html for every address, and the files that it names, compressed at the build."""

from __future__ import annotations

import mimetypes
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response

STATIC: Final = Path(__file__).parent / "static"
"""Where `web/build.py` puts them."""
NOT_BUILT: Final = "The pages are not built: run `make web`."
_EMPTY_NONCE: Final = 'name="csp-nonce" content=""'


class Pages:
    """The files of one folder."""

    def __init__(self, folder: Path = STATIC) -> None:
        self._folder = folder

    @property
    def built(self) -> bool:
        """Whether they are there."""
        return (self._folder / "index.html").is_file()

    async def index(self, request: Request) -> Response:
        """The one page. CodeMirror writes a <style> of its own, which takes this answer's nonce from it."""
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
        """A file whose name changes with its content; compressed, where the browser takes that."""
        name = request.path_params["name"]
        file = self._folder / "assets" / name
        if file.parent != self._folder / "assets" or not file.is_file():
            return PlainTextResponse("There is no such file.", 404)
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        headers = {"vary": "accept-encoding", "cache-control": "public, max-age=31536000, immutable"}
        packed = file.with_name(f"{name}.gz")
        if "gzip" in request.headers.get("accept-encoding", "") and packed.is_file():
            headers["content-encoding"], file = "gzip", packed
        return FileResponse(file, media_type=kind, headers=headers)
