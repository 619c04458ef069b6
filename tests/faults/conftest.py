"""What the attacks measured is printed at the end of their run: `record_property(name, value)` in a test."""

import pytest


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
