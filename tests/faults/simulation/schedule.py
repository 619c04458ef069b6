"""One thread that plays many: a seeded scheduler picks who goes next, who dies, and what time it is.

Every actor is a greenlet. Wherever something outside an actor is touched (a row, a ref, a lock, the clock) the actor
comes by `point`: there another may go first, and there its process may die. What one seed does, it does again.
"""

import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from greenlet import getcurrent, greenlet

T = TypeVar("T")


class Killed(BaseException):
    """The process of whoever hears this is dead: nothing that it still does has an effect."""


class Violation(AssertionError):
    """A promise was broken."""


@dataclass(eq=False)
class Process:
    """What dies at once. `ends` is what the operating system does then."""

    name: str
    alive: bool = True
    ends: list[Callable[[], None]] = field(default_factory=list)


@dataclass(eq=False)
class Task:
    """An actor: in which process, until when it sleeps, and what it waits for."""

    process: Process
    work: greenlet
    wake: float = 0.0
    ready: Callable[[], bool] | None = None
    never: bool = False  # its process died before it began

    @property
    def over(self) -> bool:
        return self.work.dead or self.never


class Schedule:
    """The actors, the clock in seconds, and everything that happens by chance."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311  the same in every run
        self.now = 0.0
        self.tasks: list[Task] = []
        self.broken: list[str] = []
        self.steps = 0
        self._hub = getcurrent()
        self._running: Task | None = None

    def start(self, process: Process, work: Callable[[], object]) -> Task:
        """Add an actor."""

        def run() -> None:
            try:
                work()
            except Killed:
                pass
            except Exception as error:  # noqa: BLE001  whatever it is, it is this run's result
                self.violated(f"an actor of {process.name} failed: {error!r}")

        task = Task(process, greenlet(run, parent=self._hub))
        self.tasks.append(task)
        return task

    @property
    def process(self) -> Process:
        """Whose turn it is."""
        assert self._running is not None
        return self._running.process

    def violated(self, what: str) -> None:
        """Note a broken promise; the run ends at the next step."""
        self.broken.append(what)

    def point(self) -> None:
        """Others may go first here, and this process may die here."""
        task = self._running
        assert task is not None
        if not task.process.alive:
            raise Killed
        self._hub.switch()
        if not task.process.alive:
            raise Killed

    def sleep(self, seconds: float) -> None:
        """Let time go by."""
        task = self._running
        assert task is not None
        task.wake = self.now + seconds
        self.point()

    def wait_for(self, ready: Callable[[], bool], seconds: float) -> bool:
        """Wait until something is so; False when the time is over before."""
        task = self._running
        assert task is not None
        until = self.now + seconds
        while not ready():
            if self.now >= until:
                return False
            task.wake, task.ready = until, ready
            try:
                self.point()
            finally:
                task.wake, task.ready = 0.0, None
        return True

    def kill(self, process: Process) -> None:
        """End a process. Called by the hub only."""
        process.alive = False
        for task in [one for one in self.tasks if one.process is process and not one.over]:
            task.never = not task.work
            if task.work:
                self._switch(task, lambda task=task: task.work.throw(Killed))
        for end in process.ends:
            end()

    def run(self, more: Callable[[], bool], between: Callable[[], None]) -> None:
        """Let the actors go on, one step of one of them at a time, `between` after each, as long as there is more."""
        while more() and not self.broken:
            task = self._next()
            self._switch(task, task.work.switch)
            self.steps += 1
            self.now += 0.0005
            between()

    def close(self) -> None:
        """End every actor that is left."""
        for process in {task.process for task in self.tasks}:
            self.kill(process)

    def _switch(self, task: Task, switch: Callable[[], object]) -> None:
        before, self._running = self._running, task
        try:
            switch()
        finally:
            self._running = before

    def _next(self) -> Task:
        self.tasks = [task for task in self.tasks if not task.over]
        while True:
            able = [task for task in self.tasks if task.wake <= self.now or (task.ready and task.ready())]
            if able:
                return self.chance.choice(able)
            self.now = min(task.wake for task in self.tasks)


def drive(work: Coroutine[Any, Any, T]) -> T:
    """Run production's coroutine to its end; whatever it awaits is played, so that it never waits for an event loop."""
    try:
        work.send(None)
    except StopIteration as ended:
        found: T = ended.value
        return found
    work.close()
    raise TypeError("production awaited something that is not played")
