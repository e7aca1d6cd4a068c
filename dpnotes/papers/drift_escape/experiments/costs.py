"""What the longer profiles take, and why one that is not stored is outstanding."""

from dpnotes.experiments.costs import Cost

_SENSING = "from the quick profile: 500 dimensions"
_STEP_SIZE = "hours measured; minutes from the quick profile"

COSTS = {
    "sensing": {"paper": Cost(why="hours", hours=40, minutes=15, gigabytes=40, value=0.5, basis=_SENSING)},
    "step_size": {"paper": Cost(why="hours", hours=0.04, minutes=3, gigabytes=4, value=0.5, basis=_STEP_SIZE)},
}
