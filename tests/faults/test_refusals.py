"""The disk refuses one system call of an execution, or all from there on: never a false end, and it recovers."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import func, select

from service.proposals.tables import intent, work_queue
from tests.faults.attack import Call, Zygote, calls_in, refuse_at, why_not
from tests.faults.sizes import SIZES, sampled
from tests.faults.trial import LAYOUTS, Tally, counted, staged
from tests.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(bool(why_not()), reason=why_not())]
ERRORS = {
    **dict.fromkeys(("write", "pwrite64", "fsync"), ("ENOSPC", "EIO")),
    **dict.fromkeys(("rename", "mkdir", "link", "ftruncate"), ("ENOSPC", "EIO", "EROFS")),
    **dict.fromkeys(("unlink", "rmdir"), ("EIO", "EROFS")),
}
FOLDER = re.compile(r"\.git/((?:objects|refs)(?:/[a-z]+)?)>")
MADE = re.compile(r'(?:, |\A)"[^"]*\.git/([^"]+)/([^"/]+)"(?:\)|, 0)')
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
    for number in sampled(len(every), SIZES.kill_points // 4):
        layout, call, error, for_ever = every[number - 1]
        trial = await staged(stage, layout)
        refused = writers.run("persist", trial.house, trial.ids, refuse_at(call, error, for_ever=for_ever))
        assert refused.status == 0
        recovered = writers.run("recover", trial.house, trial.ids)
        await tally.add(f"{layout}, {error}{' for ever' if for_ever else ''}, {call}", trial, recovered.seconds)
    record_property("refusals", len(every))
    tally.tell(record_property)
    assert not tally.wrong, "\n".join(tally.wrong)


@pytest.mark.parametrize("call", [Call("rename", 1), Call("fsync", 3), Call("rename", 3)])
async def test_a_disk_that_refuses_for_ever_after_the_intent_uses_up_no_attempts(
    stage: Stage, writers: Zygote, call: Call
) -> None:
    trial = await staged(stage, "loose")
    assert writers.run("persist", trial.house, trial.ids, refuse_at(call, "ENOSPC", for_ever=True)).status == 0
    async with stage.owner_db.bound(trial.house.tenant) as tx:
        assert await tx.scalar(select(intent.c.attempts)) == 1
    assert await trial.ends() == ["approved"]
    writers.run("recover", trial.house, trial.ids)
    assert await trial.faults() == []


async def test_a_pin_that_cannot_be_read_lets_the_proposal_wait_too(
    stage: Stage, writers: Zygote, tmp_path: Path
) -> None:
    calls = await counted(stage, writers, "loose", tmp_path / "log")
    pin = next(call for call in calls if call.name == "openat" and 'refs/heads/main"' in call.arguments)
    trial = await staged(stage, "loose")
    assert writers.run("execute", trial.house, trial.ids, refuse_at(pin, "EIO")).status == 0
    async with stage.owner_db.directory() as tx:
        later = (work_queue.c.due > func.clock_timestamp()) & (work_queue.c.kind == "execute")
        mine = select(func.count()).select_from(work_queue).where(later, work_queue.c.tenant == trial.house.tenant)
        assert await tx.scalar(mine) == 1
    writers.run("recover", trial.house, trial.ids)
    assert await trial.faults() == []


async def test_what_a_failed_flush_may_have_lost_is_written_anew(stage: Stage, writers: Zygote, tmp_path: Path) -> None:
    """A second fsync succeeds without having written anything (fsync(2)): only a new entry makes a folder sure."""
    flushed = [call for call in await counted(stage, writers, "loose", tmp_path / "log") if call.name == "fsync"]
    folders = [call for call in flushed if FOLDER.search(call.arguments)]
    names = [FOLDER.findall(call.arguments)[0] for call in folders]
    assert names == ["objects/pack", "refs", "refs/proposals", "refs/heads"]
    for call, folder in zip(folders, names, strict=True):
        trial = await staged(stage, "loose")
        log = tmp_path / str(call.number)
        assert writers.run("persist", trial.house, trial.ids, refuse_at(call, "EIO"), log=log).status == 0
        assert await trial.faults() == []
        calls = calls_in(log)
        failed = calls.index(call)
        again = [later.arguments for later in calls[failed + 1 :] if later.name == "fsync"]
        assert folder in [found for arguments in again for found in FOLDER.findall(arguments)]
        assert entries(calls[:failed], folder) <= entries(calls[failed + 1 :], folder)


def entries(calls: list[Call], folder: str) -> set[str]:
    """The names that a rename or mkdir made in a folder."""
    targets = [MADE.search(call.arguments) for call in calls if call.name in {"rename", "mkdir"}]
    return {found[2] for found in targets if found and found[1] == folder}
