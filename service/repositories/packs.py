"""Write all of a proposal's objects as one pack, so that they cost one flush and become visible together.

Order: pack written, flushed, renamed; index likewise; folder flushed (DESIGN, "Exactly once" step 4). git looks for
`*.idx`, so a pack without its index is not there yet. Source: gitformat-pack(5), pack version 2, index version 2.
"""

import hashlib
import itertools
import os
import secrets
import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from service.repositories.durable import flush, write_new
from service.repositories.objects import Staged

OFFSET_MOST = 0x7FFF_FFFF


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
    folder = f"{repository}/objects/pack"
    _install(folder, f"{name}.pack", pack)
    _install(folder, f"{name}.idx", index)
    flush(folder)
    return name


def _build(objects: Iterable[Staged]) -> tuple[bytes, bytes, str]:
    entries = sorted(objects, key=lambda one: one.oid)
    head = struct.pack(">4sII", b"PACK", 2, len(entries))
    ends = itertools.accumulate((len(one.packed) for one in entries), initial=len(head))
    body = b"".join((head, *(one.packed for one in entries)))
    checksum = hashlib.sha1(body, usedforsecurity=False)
    index = _index(entries, list(ends)[:-1], checksum.digest())
    return body + checksum.digest(), index, f"pack-{checksum.hexdigest()}"


def _index(entries: Sequence[Staged], offsets: Sequence[int], pack_checksum: bytes) -> bytes:
    """Fan-out, ids, checksums, offsets, and the two checksums of the end. Below 2 GiB an offset has four bytes."""
    if offsets[-1] > OFFSET_MOST:
        raise ValueError("a pack of more than 2 GiB")
    counts = Counter(int(one.oid[:2], 16) for one in entries)
    fan_out = itertools.accumulate(counts[first] for first in range(256))
    body = b"".join(
        (
            b"\xfftOc",
            struct.pack(">257I", 2, *fan_out),
            *(bytes.fromhex(one.oid) for one in entries),
            struct.pack(f">{len(entries)}I", *(zlib.crc32(one.packed) for one in entries)),
            struct.pack(f">{len(entries)}I", *offsets),
            pack_checksum,
        )
    )
    return body + hashlib.sha1(body, usedforsecurity=False).digest()


def _install(folder: str, name: str, content: bytes) -> None:
    new = f"{folder}/tmp_{name}_{secrets.token_hex(4)}"  # noqa: S108  in the repository
    try:
        write_new(new, content, mode=0o444)
        os.rename(new, f"{folder}/{name}")
    except OSError:
        with suppress(FileNotFoundError):
            os.unlink(new)
        raise
