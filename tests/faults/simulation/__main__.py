"""Play one seed again: `python -m tests.faults.simulation SEED LIFECYCLES`."""

import argparse
import sys

from tests.faults.simulation.play import Play

asked = argparse.ArgumentParser(prog="python -m tests.faults.simulation", description="Play one seed again.")
asked.add_argument("seed", type=int)
asked.add_argument("lifecycles", type=int, help="how many proposals are made and brought to their end")
given = asked.parse_args()
if given.lifecycles < 1:
    asked.error("lifecycles: at least one")
played = Play(given.seed, given.lifecycles).run()
ends = ", ".join(f"{count} {what}" for what, count in sorted(played.ends.items()))
sys.stdout.write(f"{ends} (processes killed, pushes made, proposals by their ends) in {played.schedule.steps} steps\n")
sys.stdout.writelines(f"broken: {one}\n" for one in played.broken)
sys.exit(bool(played.broken))
