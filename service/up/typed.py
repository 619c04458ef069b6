"""Commands as they can be typed: the program may not be on the path, nor the data where it is usual."""

import os
import shlex
import shutil
import sys
from pathlib import Path

from service.up.place import DATA_DIR, DATA_DIR_VARIABLE

PROGRAM = "placet"


def typed(*words: str, data_dir: Path) -> str:
    """The line for a shell that says these words to the service of this data directory."""
    return shlex.join((*_program(), *words, *_where(data_dir)))


def _program() -> list[str]:
    """How this program was called, as short as it can be said."""
    called = Path(sys.argv[0]).absolute()
    if called.name != PROGRAM:
        return [_short(Path(sys.executable)), "-m", "service.cli"]
    found = shutil.which(PROGRAM)
    if found and called.exists() and called.samefile(found):
        return [PROGRAM]
    short = _short(called)
    return [short if os.sep in short else f".{os.sep}{short}"]  # without a slash a shell looks for it on the path


def _where(data_dir: Path) -> list[str]:
    """Said also where a variable says it, which the next terminal may not have."""
    usual = data_dir.resolve() == Path(DATA_DIR).resolve() and DATA_DIR_VARIABLE not in os.environ
    return [] if usual else ["--data-dir", _short(data_dir.absolute())]


def _short(path: Path) -> str:
    """As seen from here, where that is shorter."""
    return min(os.path.relpath(path), str(path), key=len)
