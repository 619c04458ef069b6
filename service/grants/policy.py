"""What one connection may propose: small clauses over operations, branches and paths. Deny wins.

A subject without an allow clause is unrestricted; with one, something must match. In patterns `*` stands for anything
within one path segment, `**` for anything, `?` for one character. A deny clause also matches other letter case, since
the owner's file system may not tell the two apart.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal
from uuid import UUID

from sqlalchemy import select

from service.contract.names import quote_path
from service.grants.tables import policy_clause
from service.kit.database import Bound
from service.kit.errors import Code, Refusal

Subject = Literal["operation", "branch", "path"]
PATTERN_CHARACTERS = 300
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_CLASSES = re.compile(r"[\[{}]")
_TOKENS = {"**": ".*", "*": "[^/]*", "?": "[^/]"}


@dataclass(frozen=True)
class Clause:
    """One line of a policy."""

    effect: Literal["allow", "deny"]
    subject: Subject
    pattern: str

    def matches(self, value: str) -> bool:
        return _compiled(self.pattern, ignore_case=self.effect == "deny").fullmatch(value) is not None

    def __str__(self) -> str:
        return f"{self.effect} {self.subject} {self.pattern}"


@dataclass(frozen=True)
class Wanted:
    """What a request or a plan touches: operation kinds, full ref names, paths."""

    operations: Sequence[str]
    refs: Sequence[str]
    paths: Sequence[bytes]

    def values(self) -> Iterable[tuple[Subject, str]]:
        """Each thing by the subject whose clauses govern it."""
        yield from (("operation", kind) for kind in self.operations)
        yield from (("branch", name.removeprefix("refs/heads/")) for name in self.refs)
        yield from (("path", quote_path(path)) for path in self.paths)


def check_pattern(clause: Clause, kinds: Collection[str]) -> None:
    """Refuse a clause that would not do what its author believes.

    Args:
        clause: what is to be added.
        kinds: the operations that exist.

    Raises:
        Refusal: INVALID_ARGUMENT with field `pattern`.
    """
    fault = _fault(clause.pattern) or _fault_for_subject(clause, kinds)
    if fault:
        raise Refusal(Code.INVALID_ARGUMENT, fault, field="pattern")


def _fault(pattern: str) -> str:
    if not pattern:
        return "A pattern must not be empty; ** stands for anything."
    if len(pattern) > PATTERN_CHARACTERS:
        return f"A pattern has at most {PATTERN_CHARACTERS} characters."
    if _CONTROL.search(pattern):
        return "A pattern has no control characters."
    if _CLASSES.search(pattern):
        return "A pattern has no [ ] classes and no { } lists: add one clause for each, or write ? for any character."
    return ""


def _fault_for_subject(clause: Clause, kinds: Collection[str]) -> str:
    if clause.subject == "path" and clause.pattern.startswith("/"):
        return "Paths begin at the top of the repository, without a slash."
    if clause.subject == "operation" and "*" not in clause.pattern and not any(map(clause.matches, kinds)):
        return f"There is no such operation. There are: {', '.join(sorted(kinds))}."
    return ""


async def read_clauses(tx: Bound, connection: UUID) -> tuple[Clause, ...]:
    """The policy of a connection, in a fixed order."""
    columns = policy_clause.c
    found = await tx.execute(
        select(columns.effect, columns.subject, columns.pattern)
        .where(columns.connection == connection)
        .order_by(columns.effect, columns.subject, columns.pattern)
    )
    return tuple(Clause(row.effect, row.subject, row.pattern) for row in found)


def check_policy(clauses: Sequence[Clause], wanted: Wanted) -> None:
    """Refuse what the policy does not allow.

    Raises:
        Refusal: POLICY_DENIED naming the clause that denies, or the clauses of which none allows.
    """
    for subject, value in wanted.values():
        denied = next((c for c in clauses if (c.effect, c.subject) == ("deny", subject) and c.matches(value)), None)
        if denied:
            raise Refusal(
                Code.POLICY_DENIED, f"The owner's policy denies this {subject}.", clause=str(denied), field=subject
            )
        allowed = [c for c in clauses if (c.effect, c.subject) == ("allow", subject)]
        if allowed and not any(c.matches(value) for c in allowed):
            raise Refusal(
                Code.POLICY_DENIED,
                f"The owner's policy does not allow this {subject}.",
                allowed=[c.pattern for c in allowed],
                field=subject,
            )


@lru_cache(maxsize=4096)
def _compiled(pattern: str, *, ignore_case: bool) -> re.Pattern[str]:
    parts = re.split(r"(\*\*|\*|\?)", pattern)
    source = "".join(_TOKENS.get(part, re.escape(part)) for part in parts)
    return re.compile(source, re.DOTALL | (re.IGNORECASE if ignore_case else 0))
