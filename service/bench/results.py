"""What a measure found: tables that can be pasted, targets with whether they were reached, and all of it as JSON."""

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

MS = 1_000
_WIDTH = 200
_SMALL = 10


@dataclass(frozen=True)
class Target:
    """What was promised of a figure: `most` or `least`, and in which unit both are said."""

    what: str
    figure: float
    most: float | None = None
    least: float | None = None
    unit: str = "x"

    @property
    def reached(self) -> bool:
        """Whether the promise is kept here."""
        return (self.most is None or self.figure <= self.most) and (self.least is None or self.figure >= self.least)

    def row(self) -> dict[str, Any]:
        """A line for people."""
        bound = f"at most {self.most:g}" if self.least is None else f"at least {self.least:g}"
        word = "reached" if self.reached else "not reached"
        return {"target": self.what, "promised": f"{bound} {self.unit}", "is": round(self.figure, 2), "": word}


@dataclass(frozen=True)
class Results:
    """One table. `rows` have the same columns each; `note` says what a reader must know."""

    title: str
    rows: Sequence[Mapping[str, Any]]
    targets: Sequence[Target] = ()
    note: str = ""

    def as_data(self) -> dict[str, Any]:
        """For scripts."""
        targets = [{**asdict(target), "reached": target.reached} for target in self.targets]
        return {"title": self.title, "rows": [dict(row) for row in self.rows], "targets": targets, "note": self.note}


@dataclass
class Times:
    """Seconds by what was timed, in the order in which they came."""

    seconds: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, seconds: float) -> None:
        self.seconds.setdefault(name, []).append(seconds)

    def median(self, name: str) -> float:
        """Milliseconds."""
        return statistics.median(self.seconds[name]) * MS

    def row(self) -> dict[str, float]:
        """Every median in milliseconds."""
        return {f"{name}, ms": round(self.median(name), 2) for name in self.seconds}

    def ratio(self, one: str, other: str) -> float:
        """How many times the other's median goes into the one's."""
        return self.median(one) / self.median(other)


def show(console: Console, machine: Mapping[str, str], found: Iterable[Results], *, as_json: bool) -> None:
    """Print everything: tables in Markdown, or one JSON object."""
    if as_json:
        console.file.write(json.dumps({"machine": machine, "results": [one.as_data() for one in found]}) + "\n")
        return
    console = Console(file=console.file, width=_WIDTH, highlight=False)
    console.print("\n".join(f"{name}: {value}" for name, value in machine.items()), markup=False)
    for one in found:
        console.print(f"\n## {one.title}\n", markup=False)
        console.print(_table(one.rows))
        if one.targets:
            console.print(_table([target.row() for target in one.targets]))
        if one.note:
            console.print(one.note, markup=False)


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=box.MARKDOWN)
    for name, value in rows[0].items():
        table.add_column(name, justify="right" if isinstance(value, int | float) else "left")
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    return table


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.2f}" if abs(value) < _SMALL else f"{value:.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
