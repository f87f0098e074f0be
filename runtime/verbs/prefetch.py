"""Download what the job reads from the internet, in its ranks' environment.

Run this on a machine with internet access that can access the nodes' download folder. Repeating it is cheap because
existing files are kept.
Exit:  0 if everything has been downloaded, 1 if a download failed, or 2 for an invalid option.
"""

from __future__ import annotations

from ..engines.artifact_location import Place
from ..engines.engine import Engine
from ..system.command_line import Parser


def main(argv: list[str]) -> int:
    place = Place.of_this_program()
    parser(place.engine()).parse_args(argv)
    items = place.settings.get("prefetch")
    if not items:
        print("nothing to download: caches.prefetch is empty")
        return 0
    from .downloads import download_items  # packed only in jobs that download something

    download_items(place, items)
    return 0


def parser(engine: Engine) -> Parser:
    summary = "Download what the job reads from the internet, in its ranks' environment."
    end = "Run this verb on a machine that can access both the internet and the nodes' download folder."
    return Parser("prefetch", summary, end)
