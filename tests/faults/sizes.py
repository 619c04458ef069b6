"""How much of each attack is run, in one place: PLACET_FAULTS is suite (the ordinary tests), short or long."""

import os
from dataclasses import dataclass

VARIABLE = "PLACET_FAULTS"
ALL = 1_000_000_000


@dataclass(frozen=True)
class Sizes:
    """How many of each.

    Attributes:
        kill_points: system calls to be killed or refused at; ALL is every one.
        recovery_kills: system calls of a recovery to be killed at, for each state that it may find.
        random_kills: kills at random moments under load.
        race_rounds: rounds of each race.
        lifecycles: simulated lives of a proposal.
        operations: how many of the operations.
        operation_points: system calls of each operation's execution to be killed and refused at.
    """

    kill_points: int
    recovery_kills: int
    random_kills: int
    race_rounds: int
    lifecycles: int
    operations: int
    operation_points: int


FORMS = {
    "suite": Sizes(40, 2, 20, 10, 5_000, 4, 1),
    "short": Sizes(ALL, 50, 500, 100, 100_000, ALL, 12),
    "long": Sizes(ALL, ALL, 10_000, 10_000, 1_000_000, ALL, ALL),
}
FORM = os.environ.get(VARIABLE, "suite")
SIZES = FORMS[FORM]


def sampled(points: int, most: int) -> list[int]:
    """At most `most` of the numbers 1 to `points`, evenly spread from the first to the last; never by chance."""
    if points <= most:
        return list(range(1, points + 1))
    return sorted({1 + round(index * (points - 1) / max(most - 1, 1)) for index in range(most)})
