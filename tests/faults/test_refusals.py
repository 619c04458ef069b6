"""The disk refuses one system call of an execution, or all from there on: never a false end, and it recovers."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.attack import Call, Zygote, refuse_at, why_not
from tests.faults.sizes import SIZES, sampled
from tests.faults.trial import LAYOUTS, Tally, counted, staged
from tests.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(bool(why_not()), reason=why_not())]
ERRORS = {
    **dict.fromkeys(("write", "fsync"), ("ENOSPC", "EIO")),
    **dict.fromkeys(("rename", "mkdir", "link", "ftruncate"), ("ENOSPC", "EIO", "EROFS")),
    **dict.fromkeys(("unlink", "rmdir"), ("EIO", "EROFS")),
}
WRITING = re.compile(r"O_WRONLY|O_RDWR|O_CREAT")


def errors(call: Call) -> tuple[str, ...]:
    """The errors that the kernel could give here. close is left out: a real one frees the descriptor all the same."""
    if ".git" not in call.arguments:
        return ()
    if call.name == "openat":
        made = ("ENOSPC",) if "O_CREAT" in call.arguments else ()
        changed = ("EROFS",) if WRITING.search(call.arguments) else ()
        return ("EIO", "EMFILE", *made, *changed)
    return ERRORS.get(call.name, ())


def refusals(calls: list[Call]) -> Iterator[tuple[Call, str, bool]]:
    for call in calls:
        for error in errors(call):
            yield from ((call, error, for_ever) for for_ever in (False, True))


async def test_refused_at_any_system_call_it_waits_and_is_executed_when_the_disk_is_well_again(
    stage: Stage, writers: Zygote, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    tally = Tally()
    every = [
        (layout, *refusal)
        for layout in LAYOUTS
        for refusal in refusals(await counted(stage, writers, layout, tmp_path / layout))
    ]
    for number in sampled(len(every), SIZES.kill_points // 2):
        layout, call, error, for_ever = every[number - 1]
        trial = await staged(stage, layout)
        refused = writers.run("persist", trial.house, trial.ids, refuse_at(call, error, for_ever=for_ever))
        assert refused.status == 0
        recovered = writers.run("recover", trial.house, trial.ids)
        await tally.add(f"{layout}, {error}{' for ever' if for_ever else ''}, {call}", trial, recovered.seconds)
    record_property("refusals", len(every))
    tally.tell(record_property)
    assert not tally.wrong, "\n".join(tally.wrong)
