"""What the attacks measured is printed at the end of their run: `record_property(name, value)` in a test."""

from collections.abc import AsyncIterator

import pytest

from service.kit.database import Database
from service.repositories.placement import Storage
from tests.faults.attack import Zygote, zygote
from tests.faults.trial import staged
from tests.stage import Stage


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = (report for group in terminalreporter.stats.values() for report in group)
    lines = [
        f"{report.nodeid.rpartition('::')[2]}: {name} {value}"
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for name, value in report.user_properties
    ]
    if lines:
        terminalreporter.section("measured")
        terminalreporter.write("\n".join(lines) + "\n")


@pytest.fixture(scope="session")
async def writers(
    database_url: str,
    owner_db: Database,
    app_db: Database,
    writer_db: Database,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Zygote]:
    """What forks the writers that are attacked."""
    storage = Storage(tmp_path_factory.mktemp("warm"))
    with zygote(database_url) as started:
        warm = await staged(Stage(owner_db, app_db, writer_db, storage), "loose")
        started.warm(warm.house, warm.ids)
        yield started
