"""What may be called what: paths, refs, object ids, modes, texts and names are judged here before a Git library sees
them.

No library's own check is enough: they cut at NUL, turn `/etc/passwd` into `etc/passwd`, and take `.g<U+200C>it`,
`refs/heads/-x` or `refs/heads/HEAD`. So what is created passes an allow-list, and what is only looked up is refused
when it cannot exist or would be read as something other than a name.

Every function is pure, returns the value in the form to go on with (never one that was silently altered), and raises
`Refusal` with `field` and `rule` (stable, for programs), and `limit` and `value` where a size was exceeded; details
never hold the text that was refused. Sizes are bytes of UTF-8 for paths and refs, code points for texts.
"""

import re
import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import regex

from service.contract.hidden import HIDDEN_RANGES, label
from service.kit.errors import Code, Refusal

PATH_BYTES: Final = 2_048
READ_PATH_BYTES: Final = 4_096
COMPONENT_BYTES: Final = 255
PATH_DEPTH: Final = 32
REF_BYTES: Final = 1_024
QUOTED: Final = 4
"""A byte takes at most this many characters in C quotes."""
MESSAGE_CHARACTERS: Final = 10_000
NAME_CHARACTERS: Final = 100

MODES: Final[Mapping[str, int]] = MappingProxyType({"100644": 0o100644, "100755": 0o100755})
"""The modes that a proposal may set; symbolic links (120000) and gitlinks (160000) are not among them."""

OWN_TRAILERS: Final = ("Proposal", "Approved-by", "Connection", "Reviewed-digest")
"""The trailer keys that only the writer puts into a message, once each."""


class _Rule(NamedTuple):
    """A text that holds `pattern` somewhere is refused under `name`."""

    name: str
    pattern: Any
    sentence: str


def _compile(pattern: str) -> Any:
    return regex.compile(pattern, regex.V1)  # type: ignore[no-untyped-call]


def _rule(name: str, pattern: str, sentence: str) -> _Rule:
    return _Rule(name, _compile(pattern), sentence)


_NOT_TEXT = _rule("unassigned", r"[\p{Cn}\p{Co}\p{Cs}\ufffc\ufffd\u2800]", "has a character without a fixed meaning")
# Unicode's Stream-Safe Text Format (UAX #15, section 13) has at most 30 marks on one letter.
_STACKED_MARKS = _rule("stacked_marks", r"(?<!\p{M})\p{M}{31}", "has more than 30 combining marks on one letter")

_NEW_PATH: Final = (
    _rule("hidden_character", rf"[{HIDDEN_RANGES}\t\n]", "has a character that cannot be seen or reorders text"),
    _NOT_TEXT,
    _STACKED_MARKS,
    _rule("backslash", r"\\", "has a backslash; components are separated by /"),
    _rule("colon", ":", "has a colon"),
    _rule("windows", r'[<>"|?*]', 'has one of < > " | ? *, which Windows does not allow'),
    # What would decode to a control character, a dot, a slash, a backslash, a colon, another percent sign, or one of
    # these in overlong UTF-8 is refused as it stands: nothing is ever decoded, and nobody needs it in a name.
    _rule("percent", r"%(?i:[01][0-9a-f]|7f|2[5ef]|3a|5c|c[01])", "has a percent sequence for a reserved character"),
    _rule("leading_slash", "^/", "begins with a slash"),
    _rule("trailing_slash", r"/\Z", "ends with a slash"),
    _rule("leading_dash", "^-", "begins with a dash, so that programs would take it for an option"),
)
_COMPONENT: Final = (
    _rule("empty_component", r"^\Z", "has an empty component"),
    _rule("dot_component", r"^\.{1,2}\Z", "has a component . or .."),
    _rule("edge_space", r"^ | \Z", "has a component that begins or ends with a space"),
    _rule("trailing_dot", r"\.\Z", "has a component that ends with a dot"),
    _rule("leading_mark", r"^\p{M}", "has a component that begins with a combining mark"),
)
# These judge what a file system or a reader may take a component for: compatibility forms and case folded, trailing
# dots and spaces gone.
_ALIAS: Final = (
    _rule("dot_component", r"^\Z", "has a component that can pass for . or .."),
    _rule("dot_git", r"^\.git\Z", "has a component .git, or one that can pass for it"),
    _rule("dot_gitmodules", r"^\.gitmodules\Z", "would set up submodules; agents may not"),
    # NTFS gives each file a second name of this shape: GIT~1, GITMOD~1 and GI7EBA~1 are .git and .gitmodules, and
    # GITHUB~1 is .github.
    _rule("short_name", r"^[^.~]{1,6}~[0-9]+(?:\.[^.]{0,3})?\Z", "has a component like a Windows short name (GIT~1)"),
    _rule(
        "device_name",
        r"^(?:con|prn|aux|nul|conin\$|conout\$|com[0-9]|lpt[0-9]) *(?:\.|\Z)",
        "has a component that is a device on Windows (CON, NUL, COM1 and the like)",
    ),
)
# The same for what is there already, whatever else its name is: a file of a submodule's settings, or one of Git's own.
_GITS_OWN: Final = (
    *(rule for rule in _ALIAS if rule.name in {"dot_git", "dot_gitmodules"}),
    # is_ntfs_dotgit and is_ntfs_dotgitmodules in path.c of Git.
    _rule(
        "short_name", r"^(?:git|gitmod|gi?|gi7(?:e(?:ba?)?)?)~[0-9]+\Z", "has a component that can pass for .gitmodules"
    ),
)
_READ_PATH: Final = (
    _rule("nul", r"\x00", "holds a NUL"),
    _rule("empty_component", r"^\Z|^/|//|/\Z", "is empty or has an empty component"),
    _rule("dot_component", r"(?:^|/)\.{1,2}(?:/|\Z)", "has a component . or .."),
    _rule("dot_git", r"(?i:(?:^|/)\.git(?:/|\Z))", "has a component .git"),
)

# git check-ref-format(1), which numbers these rules; DEL and the control characters are one rule there.
_REF: Final = (
    _rule("control", r"[\x00-\x1f\x7f]", "has a control character"),
    _rule("reserved_character", r"[ ~^:?*\[\\]", r"has one of ~ ^ : ? * [ \ or a space; an expression is no name"),
    _rule("at_brace", r"@\{|^@\Z", "is @ or has @{; an expression is no name"),
    _rule("double_dot", r"\.\.", "has two dots in a row; a range is no name"),
    _rule("empty_component", r"^\Z|^/|//|/\Z", "is empty or has an empty component"),
    _rule("leading_dot", r"(?:^|/)\.", "has a component that begins with a dot"),
    _rule("trailing_dot", r"\.\Z", "ends with a dot"),
    _rule("lock", r"\.lock(?:/|\Z)", "has a component that ends with .lock"),
    _rule("leading_dash", "^-", "begins with a dash, so that programs would take it for an option"),
)
_NEW_REF: Final = (
    *_REF,
    _rule("characters", r"^[^A-Za-z0-9_]|[^A-Za-z0-9._/@+#=-]", "may have letters, digits and . _ / @ + # = - only"),
    _rule("trailing_dot", r"\./", "has a component that ends with a dot"),
    _rule("lock", r"(?i:\.lock(?:/|\Z))", "has a component that ends with .lock"),
    _rule("head", r"(?i:^HEAD\Z)|^[A-Z_]+_HEAD\Z", "is the name of a pseudo ref"),
    _rule("object_id", r"(?i:^(?:[0-9a-f]{40}|[0-9a-f]{64})\Z)", "looks like an object id"),
    _rule("namespace", r"(?i:^(?:refs|heads|tags|remotes)/)", "begins like a ref in full; give the short name only"),
)
_NEW_REF_CHARACTERS: Final = 201
_HEADS: Final = "refs/heads/"
_TAGS: Final = "refs/tags/"

_TEXT: Final = (
    _rule("nul", r"\x00", "holds a NUL"),
    _rule("carriage_return", r"\r", "has a carriage return; lines end with a line feed only"),
    _rule("control", r"[\p{Cc}--[\t\n]]", "has a control character other than tab and line feed"),
    _rule("noncharacter", r"\p{Noncharacter_Code_Point}", "has a code point that is no character"),
    _STACKED_MARKS,
    _rule("blank", rf"^[\s\u2800{HIDDEN_RANGES}]+\Z", "has nothing that can be seen"),
)
_OWN_KEYS: Final = "|".join(key.casefold().replace("-", r"[\p{Pd}\s_]*") for key in OWN_TRAILERS)
_MESSAGE: Final = (
    _rule(
        "own_trailer",
        rf"(?m)^[^\S\n]*(?:{_OWN_KEYS})\s*:",
        f"has a line with a key that only the service writes: {', '.join(OWN_TRAILERS)}",
    ),
)
# Letters of other alphabets that pass for those in the keys above, and what NFKC leaves of colons, dashes and lines
# (a choice from Unicode's confusables.txt, UTS 39).
_LOOK_ALIKES: Final = str.maketrans(
    {
        char: plain
        for plain, chars in {
            "a": "\u0410\u0430\u0391\u03b1",
            "b": "\u0412\u0392\u044c",
            "c": "\u0421\u0441\u03f9",
            "d": "\u0501",
            "e": "\u0415\u0435\u0395",
            "g": "\u0261",
            "i": "\u0406\u0456\u0399\u03b9\u0131",
            "l": "\u04c0\u04cf",
            "n": "\u039d\u0578",
            "o": "\u041e\u043e\u039f\u03bf\u0585",
            "p": "\u0420\u0440\u03a1\u03c1",
            "s": "\u0405\u0455",
            "t": "\u0422\u03a4\u03c4",
            "v": "\u0474\u0475\u03bd",
            "w": "\u051c\u051d",
            "y": "\u0423\u0443\u03a5\u04ae\u04af",
            "-": "\u2212",
            ":": "\u02d0\u0589\u05c3\u2236\ua789",
            "\n": "\u2028\u2029",
        }.items()
        for char in chars
    }
)
_NAME: Final = (
    _rule("line_break", r"[\n\r\u0085\u2028\u2029]", "has a line break"),
    _rule("hidden_character", rf"[{HIDDEN_RANGES}\t]", "has a character that cannot be seen or reorders text"),
    _rule("angle_bracket", "[<>]", "has < or >, which end a name in Git"),
    _NOT_TEXT,
    _STACKED_MARKS,
    _rule("edge_space", r"^\s|\s\Z", "begins or ends with a space"),
    # ident.c of Git strips these from both ends and then refuses an empty name.
    _rule("blank", r"""^[\s.,:;"'\\\p{M}]*\Z""", "has nothing but spaces, marks and punctuation that Git strips"),
)

_HIDDEN: Final = re.compile(f"[{HIDDEN_RANGES}]")
_IGNORABLE: Final = _compile(r"[\p{Default_Ignorable_Code_Point}\p{Cf}]+")
_OID: Final = re.compile(r"[0-9a-f]{40}")

# quote.c of Git: bytes with a letter of their own, then octal for what is not printable ASCII.
_ESCAPES: Final = dict(zip(b'\a\b\t\n\v\f\r"\\', 'abtnvfr"\\', strict=True))
_PRINTABLE: Final = range(0x20, 0x7F)
_QUOTED: Final = tuple(
    f"\\{_ESCAPES[byte]}" if byte in _ESCAPES else chr(byte) if byte in _PRINTABLE else f"\\{byte:03o}"
    for byte in range(256)
)
_UNQUOTED: Final = {letter.encode(): bytes((byte,)) for byte, letter in _ESCAPES.items()}
_QUOTED_FORM: Final = re.compile(rb'"((?:[^"\\]|\\(?:[abtnvfr"\\]|[0-3][0-7]{2}))*)"')
_ESCAPE: Final = re.compile(rb"\\(?:([abtnvfr\"\\])|([0-7]{3}))")
_NEEDS_QUOTES: Final = re.compile(rf'[{HIDDEN_RANGES}\t\n"\\]')


class _Judge(NamedTuple):
    """Says under which code, about what and where it refuses."""

    code: Code
    noun: str
    field: str

    def refuse(self, rule: str, sentence: str, **details: Any) -> Refusal:
        return Refusal(self.code, f"The {self.noun} {sentence}.", field=self.field, rule=rule, **details)

    def apply(self, rules: tuple[_Rule, ...], text: str) -> None:
        for rule in rules:
            found = rule.pattern.search(text)
            if found:
                one = {"character": label(found[0])} if len(found[0]) == 1 else {}
                raise self.refuse(rule.name, rule.sentence, **one)

    def size(self, rule: str, value: int, unit: str, *, most: int, least: int = 0) -> None:
        if value > most:
            raise self.refuse(rule, f"has {value:,} {unit}; {most:,} are allowed", limit=most, value=value)
        if value < least:
            raise self.refuse(rule, f"has {value:,} {unit}; at least {least:,} is needed", limit=least, value=value)

    def encode(self, text: str) -> bytes:
        try:
            return text.encode()
        except UnicodeEncodeError:
            raise self.refuse("unicode", "has a lone surrogate, which UTF-8 cannot hold") from None

    def unquote(self, text: str) -> bytes:
        quoted = _QUOTED_FORM.fullmatch(self.encode(text))
        if not quoted:
            raise self.refuse("quoting", "begins with a quote but is not C-quoted as Git does it")
        return _ESCAPE.sub(_unescape, quoted[1])


def check_new_path(path: str, field: str) -> bytes:
    """The bytes of a path that a proposal may create: portable, and the same to every reader and file system.

    NFC, at most 2,048 bytes, 32 components of 255 bytes each. Whether it collides with what is in the tree is asked
    with `twin_key`. No percent sequence is ever decoded.

    Raises:
        Refusal: `path_rejected`.
    """
    judge = _Judge(Code.PATH_REJECTED, "path", field)
    raw = judge.encode(path)
    judge.size("path_bytes", len(raw), "bytes", most=PATH_BYTES)
    judge.apply(_NEW_PATH, path)
    _check_normal_form(path, judge)
    components = path.split("/")
    judge.size("depth", len(components), "components", most=PATH_DEPTH)
    for component in components:
        judge.size("component_bytes", len(component.encode()), "bytes in one component", most=COMPONENT_BYTES)
        judge.apply(_COMPONENT, component)
        judge.apply(_ALIAS, _alias(component))
    return raw


def check_read_path(path: str, field: str) -> bytes:
    """The bytes of a path to look up in a tree, plain or C-quoted; whatever Git can hold can be read.

    Refused is only what no tree can have (an empty component, `.`, `..`, NUL, `.git` in any case), and more than 4,096
    bytes.

    Raises:
        Refusal: `path_rejected`.
    """
    judge = _Judge(Code.PATH_REJECTED, "path", field)
    raw = unquote_path(path, field)
    judge.size("path_bytes", len(raw), "bytes", most=READ_PATH_BYTES)
    judge.apply(_READ_PATH, raw.decode("latin-1"))
    return raw


def check_changed_path(raw: bytes, field: str) -> bytes:
    """A path that is in a tree and that a proposal may change or take away: any but what can pass for `.gitmodules`
    or `.git`, to some file system, in any component. Old names need not be portable.

    Raises:
        Refusal: `path_rejected`.
    """
    judge = _Judge(Code.PATH_REJECTED, "path", field)
    for component in _components(raw):
        judge.apply(_GITS_OWN, component)
    return raw


def sets_submodules(raw: bytes) -> bool:
    """Whether some file system takes the file of this path for `.gitmodules`."""
    name = _components(raw)[-1]
    return any(rule.name != "dot_git" and rule.pattern.search(name) for rule in _GITS_OWN)


def quote_path(raw: bytes) -> str:
    """A path, or a ref, as text that shows every byte: itself where it is UTF-8 without hidden characters, tabs, line
    feeds, quotes and backslashes, else C-quoted like Git with `core.quotePath` (git-config(1)).

    `unquote_path` gives the bytes back, whatever they are.
    """
    with suppress(UnicodeDecodeError):
        text = raw.decode()
        if not _NEEDS_QUOTES.search(text):
            return text
    return f'"{"".join(_QUOTED[byte] for byte in raw)}"'


def unquote_path(text: str, field: str) -> bytes:
    """The bytes that a text stands for: C-quoted if it begins with a quote, else its own.

    Raises:
        Refusal: `path_rejected`, when the quoting is not Git's or there is a lone surrogate.
    """
    judge = _Judge(Code.PATH_REJECTED, "path", field)
    return judge.unquote(text) if text.startswith('"') else judge.encode(text)


def twin_key(path: bytes) -> str:
    """A key that two paths share when some file system takes them for one: ignorable characters gone, canonical
    caseless form (Unicode D145: NFD, full case folding, NFD), trailing dots and spaces of each component gone.

    That covers NTFS, HFS+, APFS and the case-insensitive directories of ext4. It works on one component or on a path,
    of any bytes; the key is for comparing, not for showing or storing.
    """
    folded = _IGNORABLE.sub("", unicodedata.normalize("NFD", path.decode(errors="surrogateescape"))).casefold()
    return "/".join(part.rstrip(" .") for part in unicodedata.normalize("NFD", folded).split("/"))


def check_new_branch(name: str, field: str) -> str:
    """The ref in full, `refs/heads/<name>`, of a branch that a proposal may create.

    ASCII, at most 201 characters, git-check-ref-format(1) per component, and nothing that is read as a pseudo ref, an
    object id or a ref in full.

    Raises:
        Refusal: `ref_rejected`.
    """
    return _HEADS + _new_name(name, "branch name", field)


def check_new_tag(name: str, field: str) -> str:
    """The ref in full, `refs/tags/<name>`, of a tag that a proposal may create; the same names as for branches.

    Raises:
        Refusal: `ref_rejected`.
    """
    return _TAGS + _new_name(name, "tag name", field)


def check_existing_ref(name: str, field: str) -> bytes:
    """The ref in full, as bytes, to look up exactly as it is: a branch name, or `refs/heads/…` or `refs/tags/…`.

    C-quoted too, as `quote_path` shows a name that is not UTF-8 (a backslash marks it: no ref has one). Only
    git-check-ref-format(1) holds, so every revision expression (`HEAD~1`, `@{-1}`, `:/x`, `a..b`, `a:b`) is refused,
    and so are a dash at the start and more than 1,024 bytes.

    Raises:
        Refusal: `ref_rejected`.
    """
    judge = _Judge(Code.REF_REJECTED, "ref", field)
    raw = judge.unquote(name) if name.startswith('"') and "\\" in name else judge.encode(name)
    judge.size("length", len(raw), "bytes", most=REF_BYTES)
    full = raw if raw.startswith(b"refs/") else _HEADS.encode() + raw
    if not full.startswith((_HEADS.encode(), _TAGS.encode())):
        raise judge.refuse("namespace", "is neither a branch nor a tag")
    judge.apply(_REF, full.split(b"/", 2)[2].decode("latin-1"))
    return full


def check_oid(text: str, field: str) -> str:
    """An object id: 40 hexadecimal digits in lower case (SHA-1), never an abbreviation.

    Raises:
        Refusal: `invalid_argument`.
    """
    if not _OID.fullmatch(text):
        judge = _Judge(Code.INVALID_ARGUMENT, "object id", field)
        raise judge.refuse("object_id", "is not 40 hexadecimal digits in lower case", limit=40, value=len(text))
    return text


def check_mode(text: str, field: str) -> int:
    """The mode that `100644` or `100755` stands for; a proposal can set no other.

    Raises:
        Refusal: `invalid_argument`.
    """
    if text not in MODES:
        judge = _Judge(Code.INVALID_ARGUMENT, "mode", field)
        raise judge.refuse("mode", f"is none of {', '.join(MODES)}", allowed=list(MODES))
    return MODES[text]


def check_text(text: str, field: str, *, most: int, least: int = 1) -> str:
    """A text of `least` to `most` code points as it is: lines end with LF, no control character but TAB and LF.

    A CR is refused, not altered, so that what is stored is what was sent. Other hidden characters pass; pages show
    them.

    Raises:
        Refusal: `text_rejected`.
    """
    judge = _Judge(Code.TEXT_REJECTED, "text", field)
    judge.encode(text)
    judge.size("length", len(text), "characters", most=most, least=least)
    judge.apply(_TEXT, text)
    return text


def check_message(text: str, field: str) -> str:
    """A commit message of 1 to 10,000 code points in which no line passes for one of our trailers.

    A key counts in any case, indented, folded, and in letters, dashes and colons that look like the usual ones
    (git-interpret-trailers(1)).

    Raises:
        Refusal: `text_rejected`.
    """
    check_text(text, field, most=MESSAGE_CHARACTERS)
    plain = _HIDDEN.sub("", unicodedata.normalize("NFKC", text).translate(_LOOK_ALIKES)).casefold()
    _Judge(Code.TEXT_REJECTED, "message", field).apply(_MESSAGE, plain)
    return text


def check_name(text: str, field: str, most: int = NAME_CHARACTERS) -> str:
    """A name for people and connections on one line, of 1 to `most` code points, which can stand in a Git author.

    Raises:
        Refusal: `text_rejected`.
    """
    judge = _Judge(Code.TEXT_REJECTED, "name", field)
    judge.encode(text)
    judge.size("length", len(text), "characters", most=most, least=1)
    judge.apply(_NAME, text)
    return text


def _new_name(name: str, noun: str, field: str) -> str:
    judge = _Judge(Code.REF_REJECTED, noun, field)
    judge.size("length", len(name), "characters", most=_NEW_REF_CHARACTERS)
    judge.apply(_NEW_REF, name)
    return name


def _check_normal_form(path: str, judge: _Judge) -> None:
    # Python's own tables decide on NFC; what they do not know yet has no normal form that would last.
    if any(unicodedata.category(char) == "Cn" for char in path):
        raise judge.refuse(_NOT_TEXT.name, _NOT_TEXT.sentence)
    if not unicodedata.is_normalized("NFC", path):
        raise judge.refuse("not_nfc", "is not in Unicode Normalization Form C")


def _alias(component: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", component).casefold()).rstrip(" .")


def _components(raw: bytes) -> list[str]:
    """What the most careless file system takes the components for: backslashes part them too, what is ignorable is
    gone, and so are streams (`.gitmodules:x`) and all that `_alias` takes away.
    """
    text = _IGNORABLE.sub("", raw.decode(errors="surrogateescape"))
    return [_alias(part.split(":", 1)[0]) for part in re.split(r"[/\\]", text)]


def _unescape(escape: re.Match[bytes]) -> bytes:
    letter, octal = escape.groups()
    return _UNQUOTED[letter] if letter else bytes((int(octal, 8),))
