"""Write all of a proposal's objects as one pack, so that they cost one flush and become visible together.

Order: pack written, flushed, renamed; index likewise; folder flushed (DESIGN, "Exactly once" step 4). git looks for
`*.idx`, so a pack without its index is not there yet. Source: gitformat-pack(5), pack version 2, index version 2.
"""

import hashlib
import io
import itertools
import secrets
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path

from dulwich.pack import write_pack_index_v2

from service.repositories.durable import flush, write_new
from service.repositories.objects import Staged


def write_pack(repository: Path, objects: Iterable[Staged]) -> str:
    """Store these objects; whichever are there already are stored again, which Git allows.

    Called again after a crash at any point it ends in the same files. None of them is read.

    Args:
        repository: the bare repository's folder.
        objects: each id once or more; at least one.

    Returns:
        The pack's name without its ending, `pack-<checksum>`.

    Raises:
        OSError: the disk refused; nothing is visible then.
    """
    pack, index, name = _build({one.oid: one for one in objects}.values())
    folder = repository / "objects" / "pack"
    _install(folder, f"{name}.pack", pack)
    _install(folder, f"{name}.idx", index)
    flush(folder)
    return name


def _build(objects: Iterable[Staged]) -> tuple[bytes, bytes, str]:
    entries = sorted(objects, key=lambda one: one.oid)
    head = struct.pack(">4sII", b"PACK", 2, len(entries))
    ends = itertools.accumulate((len(one.packed) for one in entries), initial=len(head))
    rows = [
        (bytes.fromhex(one.oid), offset, zlib.crc32(one.packed)) for one, offset in zip(entries, ends, strict=False)
    ]
    body = b"".join((head, *(one.packed for one in entries)))
    checksum = hashlib.sha1(body, usedforsecurity=False)
    index = io.BytesIO()
    write_pack_index_v2(index, rows, checksum.digest())
    return body + checksum.digest(), index.getvalue(), f"pack-{checksum.hexdigest()}"


def _install(folder: Path, name: str, content: bytes) -> None:
    new = folder / f"tmp_{name}_{secrets.token_hex(4)}"
    try:
        write_new(new, content, mode=0o444)
        new.rename(folder / name)
    except OSError:
        new.unlink(missing_ok=True)
        raise
