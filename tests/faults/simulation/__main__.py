"""Play one seed again: `python -m tests.faults.simulation SEED LIFECYCLES`."""

import sys

from tests.faults.simulation.play import Play

played = Play(int(sys.argv[1]), int(sys.argv[2])).run()
sys.stdout.write(f"{dict(played.ends)} in {played.schedule.steps} steps\n")
sys.stdout.writelines(f"broken: {one}\n" for one in played.broken)
sys.exit(bool(played.broken))
