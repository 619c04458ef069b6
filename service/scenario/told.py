"""How the story is told: one line per step with what came back, and whether it was as it must be."""

from dataclasses import dataclass

from rich.console import Console

WIDTH = 46


@dataclass
class Told:
    """The lines so far; `right` while every one was as it must be."""

    console: Console
    right: bool = True
    steps: int = 0

    def line(self, title: str, came_back: str, *, right: bool) -> None:
        """Tell one step."""
        self.steps += 1
        self.right = self.right and right
        sign, colour = ("✓", "green") if right else ("✗", "bold red")
        self.console.print(f"[{colour}]{sign}[/] ", end="", highlight=False)
        self.console.print(f"{title:<{WIDTH}}{came_back}", markup=False, highlight=False, soft_wrap=True)

    def aside(self, text: str) -> None:
        """Tell what is no step."""
        self.console.print(text, style="dim", markup=False, highlight=False, soft_wrap=True)
