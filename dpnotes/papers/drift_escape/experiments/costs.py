"""The costs of the longer profiles, and the reasons why some are outstanding."""

from dpnotes.experiments.costs import Cost

_SENSING = "minutes from 141 cells on an H200, 1 to 14 s each; phase retrieval, in 10,000 dimensions, is a guess"
_STEP_SIZE = "hours measured; minutes from the quick profile"

COSTS = {
    "sensing": {"paper": Cost(why="hours", hours=40, minutes=40, gigabytes=60, value=0.5, basis=_SENSING)},
    "step_size": {"paper": Cost(why="hours", hours=0.04, minutes=3, gigabytes=4, value=0.5, basis=_STEP_SIZE)},
}
