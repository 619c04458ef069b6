"""How results are shown, and where nobody may measure or come from."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from service.bench.machine import IN_MEMORY, describe, file_system
from service.bench.results import Results, Target, Times, show
from tests.cli.service_under_test import quick

FOUND = Results("Title", [{"way": "ours", "ms": 1.25}], [Target("speed", 3.0, most=2.0)], "A note.")
MEMORY = Path("/dev/shm")  # noqa: S108  it is what is refused
WIRED = "service.app service.worker service.up.run service.scenario.play service.commands.web service.commands.writer"


def _shown(*, as_json: bool) -> str:
    out = io.StringIO()
    show(Console(file=out), {"CPU": "one"}, [FOUND], as_json=as_json)
    return out.getvalue()


def test_results_can_be_pasted_as_they_are_printed() -> None:
    lines = [line.strip() for line in _shown(as_json=False).splitlines()]
    assert "CPU: one" in lines
    assert "| ours | 1.25 |" in lines
    assert "| speed  | at most 2 x | 3.00 | not reached |" in lines


def test_results_are_one_json_object_for_scripts() -> None:
    found = json.loads(_shown(as_json=True))
    assert found["machine"] == {"CPU": "one"}
    assert found["results"][0]["rows"] == [{"way": "ours", "ms": 1.25}]
    assert found["results"][0]["targets"][0]["reached"] is False


@pytest.mark.parametrize(
    ("target", "reached"),
    [
        (Target("a", 2.0, most=2.0), True),
        (Target("a", 2.1, most=2.0), False),
        (Target("a", 6.0, least=6.0), True),
        (Target("a", 5.9, least=6.0), False),
    ],
)
def test_a_target_is_reached_at_its_bound(target: Target, reached: bool) -> None:
    assert target.reached is reached


def test_medians_are_of_each_name_in_milliseconds() -> None:
    times = Times()
    for seconds in (0.003, 0.001, 0.002):
        times.add("one", seconds)
        times.add("other", 2 * seconds)
    assert times.row() == {"one, ms": 2.0, "other, ms": 4.0}
    assert times.ratio("other", "one") == 2.0


def test_the_machine_is_described(tmp_path: Path) -> None:
    found = describe(tmp_path)
    assert set(found) == {"date", "CPU", "kernel", "file system", "Python", "git", "PostgreSQL", "load before"}
    assert all(found.values())
    assert file_system(Path("/proc")) == "proc"


@pytest.mark.skipif(not MEMORY.is_dir(), reason="no file system in memory")
def test_nobody_measures_flushes_in_memory() -> None:
    assert file_system(MEMORY) in IN_MEMORY
    done = quick("bench", "approve", "--folder", str(MEMORY))
    assert done.returncode == 2
    assert "in memory" in done.stderr


def test_what_serves_does_not_load_the_measures() -> None:
    program = (
        f"import importlib, sys; [importlib.import_module(name) for name in '{WIRED}'.split()]; print(*sys.modules)"
    )
    done = subprocess.run((sys.executable, "-c", program), capture_output=True, text=True, check=True, timeout=60)
    loaded = done.stdout.split()
    assert "service.worker" in loaded
    assert not [name for name in loaded if name.startswith("service.bench")]
