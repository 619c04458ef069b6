"""Merges that people ran into, by hand: what both sides come from, and what each has made of it."""

from tests.histories import LINK, MODULE, RUNS, Content

Files = dict[bytes, Content]
Case = tuple[Files, Files, Files]

TEN = b"".join(b"line %d\n" % number for number in range(1, 11))
ONE, TWO = b"1" * 40, b"2" * 40


def at(line: int, text: bytes, content: bytes = TEN) -> bytes:
    """The content with one line replaced by a text; it brings its own line end, or none to take the line away."""
    lines = content.splitlines(keepends=True)
    lines[line - 1 : line] = [text] if text else []
    return b"".join(lines)


def block(first: int, last: int, to: int) -> bytes:
    """Ten lines with some of them moved."""
    lines = TEN.splitlines(keepends=True)
    part = lines[first - 1 : last]
    rest = lines[: first - 1] + lines[last:]
    return b"".join(rest[:to] + part + rest[to:])


A: Files = {b"a": TEN}
AB: Files = {b"a": TEN, b"b": b"other\n"}
FOLDER: Files = {b"d/one": TEN, b"d/two": TEN.upper(), b"top": b"top\n"}

CASES: dict[str, Case] = {
    "edits far apart": (A, {b"a": at(2, b"ours\n")}, {b"a": at(9, b"theirs\n")}),
    "edits of one line": (A, {b"a": at(5, b"ours\n")}, {b"a": at(5, b"theirs\n")}),
    "edits of lines that touch": (A, {b"a": at(5, b"ours\n")}, {b"a": at(6, b"theirs\n")}),
    "edits with one line between them": (A, {b"a": at(4, b"ours\n")}, {b"a": at(6, b"theirs\n")}),
    "the same edit": (A, {b"a": at(5, b"both\n")}, {b"a": at(5, b"both\n")}),
    "the same edit and one more": (A, {b"a": at(5, b"both\n")}, {b"a": at(9, b"more\n", at(5, b"both\n"))}),
    "two regions": (
        A,
        {b"a": at(2, b"ours\n", at(9, b"ours\n"))},
        {b"a": at(2, b"theirs\n", at(9, b"theirs\n"))},
    ),
    "insertions at one place": (A, {b"a": at(5, b"line 5\nours\n")}, {b"a": at(5, b"line 5\ntheirs\n")}),
    "insertions at the end": (A, {b"a": TEN + b"ours\n"}, {b"a": TEN + b"theirs\n"}),
    "insertions at the start": (A, {b"a": b"ours\n" + TEN}, {b"a": b"theirs\n" + TEN}),
    "a line taken away and edited": (A, {b"a": at(5, b"")}, {b"a": at(5, b"theirs\n")}),
    "a moved block and an edit in it": (A, {b"a": block(2, 4, 6)}, {b"a": at(3, b"theirs\n")}),
    "a moved block and an edit elsewhere": (A, {b"a": block(2, 4, 5)}, {b"a": at(10, b"theirs\n")}),
    "edit and rename": (A, {b"moved": TEN}, {b"a": at(5, b"theirs\n")}),
    "edits on both sides of a rename": (A, {b"moved": at(2, b"ours\n")}, {b"a": at(9, b"theirs\n")}),
    "edits of one line on both sides of a rename": (A, {b"moved": at(5, b"ours\n")}, {b"a": at(5, b"theirs\n")}),
    "one rename": (A, {b"moved": TEN}, {b"moved": TEN}),
    "two renames of one file": (A, {b"x": TEN}, {b"y": TEN}),
    "two files renamed to one": (
        {b"a": TEN, b"b": TEN.upper()},
        {b"c": TEN, b"b": TEN.upper()},
        {b"a": TEN, b"c": TEN.upper()},
    ),
    "renames around": (
        {b"a": TEN, b"b": TEN.upper()},
        {b"b": TEN, b"c": TEN.upper()},
        A | {b"b": TEN.upper() + b"x\n"},
    ),
    "a rename onto what the other adds": (A, {b"b": TEN}, A | {b"b": b"added\n"}),
    "rename and delete": (AB, {b"moved": TEN, b"b": b"other\n"}, {b"b": b"other\n"}),
    "a renamed folder and a new file in it": (
        FOLDER,
        {b"e/one": TEN, b"e/two": TEN.upper(), b"top": b"top\n"},
        FOLDER | {b"d/new": b"new\n"},
    ),
    "a folder renamed to two and a new file in it": (
        FOLDER,
        {b"e/one": TEN, b"f/two": TEN.upper(), b"top": b"top\n"},
        FOLDER | {b"d/new": b"new\n"},
    ),
    "a folder renamed twice": (
        FOLDER,
        {b"e/one": TEN, b"e/two": TEN.upper(), b"top": b"top\n"},
        {b"f/one": TEN, b"f/two": TEN.upper(), b"top": b"top\n"},
    ),
    "both add the same": (A, AB, AB),
    "both add another": (A, AB, A | {b"b": b"mine\n"}),
    "both add what shares lines": (A, A | {b"b": TEN + b"ours\n"}, A | {b"b": b"theirs\n" + TEN}),
    "modify and delete": (AB, AB | {b"a": at(5, b"ours\n")}, {b"b": b"other\n"}),
    "delete and modify": (AB, {b"b": b"other\n"}, AB | {b"a": at(5, b"theirs\n")}),
    "both delete": (AB, {b"b": b"other\n"}, {b"b": b"other\n"}),
    "a file here and a folder there": (A, A | {b"b": b"file\n"}, A | {b"b/inner": b"inner\n"}),
    "a file that is edited and becomes a folder": (A, {b"a": at(5, b"ours\n")}, {b"a/inner": b"inner\n", b"z": b"z\n"}),
    "a folder that becomes a file": (
        FOLDER,
        {b"d": b"file\n", b"top": b"top\n"},
        FOLDER | {b"d/one": at(5, b"theirs\n")},
    ),
    "a folder that both sides empty": (
        FOLDER,
        {b"top": b"top\n", b"d/one": TEN},
        {b"top": b"top\n", b"d/two": TEN.upper()},
    ),
    "mode and edit": (A, {b"a": (RUNS, TEN)}, {b"a": at(5, b"theirs\n")}),
    "mode and delete": (AB, AB | {b"a": (RUNS, TEN)}, {b"b": b"other\n"}),
    "both add with another mode": (A, A | {b"run": b"x\n"}, A | {b"run": (RUNS, b"x\n")}),
    "a file that becomes a link, and an edit": (A, {b"a": (LINK, b"b")}, {b"a": at(5, b"theirs\n")}),
    "two links": ({b"l": (LINK, b"a")}, {b"l": (LINK, b"b")}, {b"l": (LINK, b"c")}),
    "a link here and a file there": (A, A | {b"b": (LINK, b"a")}, A | {b"b": b"file\n"}),
    "a submodule that moves on one side": (
        A | {b"lib": (MODULE, ONE)},
        A | {b"lib": (MODULE, TWO)},
        {b"a": at(5, b"theirs\n"), b"lib": (MODULE, ONE)},
    ),
    "a submodule that moves on both": (
        A | {b"lib": (MODULE, ONE)},
        A | {b"lib": (MODULE, TWO)},
        A | {b"lib": (MODULE, b"3" * 40)},
    ),
    "a submodule here and a file there": (A, A | {b"lib": (MODULE, ONE)}, A | {b"lib": b"file\n"}),
    "text with markers": (
        {b"a": b"<<<<<<< ours\nx\n=======\ny\n>>>>>>> theirs\n" + TEN},
        {b"a": b"<<<<<<< ours\nX\n=======\ny\n>>>>>>> theirs\n" + TEN},
        {b"a": b"<<<<<<< ours\nx\n=======\ny\n>>>>>>> theirs\n" + at(9, b"theirs\n")},
    ),
    "text with markers in dispute": (
        {b"a": b"=======\nx\n"},
        {b"a": b"=======\n>>>>>>> x\n"},
        {b"a": b"=======\n<<<<<<< x\n"},
    ),
    "line ends on one side": (A, {b"a": TEN.replace(b"\n", b"\r\n")}, {b"a": at(5, b"theirs\n")}),
    "line ends on both": (A, {b"a": TEN.replace(b"\n", b"\r\n")}, {b"a": TEN.replace(b"\n", b"\r\n")}),
    "no line end at the end": (A, {b"a": TEN.rstrip(b"\n")}, {b"a": at(2, b"theirs\n")}),
    "no line end at the end, and an edit there": (A, {b"a": TEN.rstrip(b"\n")}, {b"a": at(10, b"theirs\n")}),
    "lone carriage returns": ({b"a": b"x\ry\rz"}, {b"a": b"X\ry\rz"}, {b"a": b"x\ry\rZ"}),
    "binary on one side": ({b"a": b"\0one"}, {b"a": b"\0two"}, {b"a": b"\0one", b"b": b"b\n"}),
    "binary on both": ({b"a": b"\0one"}, {b"a": b"\0two"}, {b"a": b"\0three"}),
    "text that becomes binary": (A, {b"a": b"\0two"}, {b"a": at(5, b"theirs\n")}),
    "an empty file": ({b"a": b""}, {b"a": b"ours\n"}, {b"a": b"theirs\n"}),
    "an empty file and a rename": ({b"a": b"", b"z": b"z\n"}, {b"b": b"", b"z": b"z\n"}, {b"a": b"x\n", b"z": b"z\n"}),
    "names of any bytes": (
        {b'na\xefve "q"\t\n\\': TEN, "\u00fc\u0301".encode(): TEN, b" ": TEN},
        {b'na\xefve "q"\t\n\\': at(5, b"ours\n"), "\u00fc\u0301".encode(): at(5, b"ours\n"), b" ": TEN},
        {b'na\xefve "q"\t\n\\': at(5, b"theirs\n"), "\u00fc\u0301".encode(): TEN, b" ": at(5, b"theirs\n")},
    ),
    "names that differ in letter case": (
        A | {b"A": TEN},
        {b"a": at(5, b"ours\n"), b"A": TEN},
        A | {b"A": at(5, b"T\n")},
    ),
    "attributes of the content that nobody minds": (
        A | {b".gitattributes": b"", b"sub/.gitattributes": b""},
        {b"a": at(5, b"ours\n"), b".gitattributes": b"", b"sub/.gitattributes": b""},
        {b"a": at(5, b"theirs\n"), b".gitattributes": b"", b"sub/.gitattributes": b""},
    ),
}
