"""Pictures of every kind of message, as each receiver shows it: `make message-pictures`.

Each is a PNG of 256 colours, NAME.png. A few are in the documents, by what people read alone.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from tests.messages.message_cases import list_cases
from tests.messages.message_sheets import draw_sheet
from tests.portal import browser, pictures

_ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = _ROOT / ".cache" / "message-pictures"
DOCUMENTS: Final = _ROOT / "docs" / "messages"
IN_DOCUMENTS: Final = ("rule-fires", "lag-growing", "kafka-away", "group", "escalated", "silence-ends")
_WIDTH: Final = 1_530


def main() -> None:
    """Take all of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, default=FOLDER, help=f"where they are written ({FOLDER})")
    parser.add_argument("--only", nargs="*", help="names of messages; without it all")
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    with browser.chromium() as chromium:
        page = chromium.new_page(viewport={"width": _WIDTH, "height": 600})
        for case in list_cases():
            if arguments.only and case.name not in arguments.only:
                continue
            page.set_content(draw_sheet(case.name, case.page), wait_until="load")
            file = folder / f"{case.name}.png"
            file.write_bytes(pictures.compress(page.screenshot(full_page=True)))
            sys.stdout.write(f"{file.name} {file.stat().st_size}\n")
            if case.name in IN_DOCUMENTS:
                DOCUMENTS.mkdir(exist_ok=True)
                shot = page.locator(".row").first.screenshot()
                (DOCUMENTS / file.name).write_bytes(pictures.compress(shot))


if __name__ == "__main__":
    main()
