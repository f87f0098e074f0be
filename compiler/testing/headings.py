"""Check the headings of the pages in a plugin's codes/: each code needs a name, and codes and names must be unique.

In:  the folder codes/ of an installed backend or policy.
Out: one sentence per problem, with the correct line. There are no problems if the folder does not exist.
"""

from collections.abc import Iterator
from pathlib import Path

from ..diagnostics.code_heading import LONGEST, read_code_page_heading
from ..plugins.registry import code_pages, codes_by_name


def find_heading_problems(folder: Path) -> Iterator[str]:
    """Yield the problems in a folder's pages, sorted by code."""
    for page in sorted(folder.glob("*.md")):
        code, heading = page.stem, read_code_page_heading(page)
        if code_pages()[code] != page:
            yield f"{page.name}: {code_pages()[code]} already describes {code}; choose another code"
        elif not heading.name:
            yield (
                f"{page.name}: the code has no name; begin the page with `# {code} NAME: title`, where NAME is two to "
                f"four lower-case words with hyphens that describe the problem, such as taken-port"
            )
        elif len(heading.name) > LONGEST:
            yield f"{page.name}: name {heading.name} has {len(heading.name)} characters, more than {LONGEST}"
        elif others := [other_code for other_code in codes_by_name()[heading.name] if other_code != code]:
            yield f"{page.name}: name {heading.name} is also the name of {', '.join(others)}; choose another name"
