"""The costs of outstanding profiles, and the reasons why they are."""

from dpnotes.experiments.costs import Cost

_SENSING = "minutes from 141 cells on an H200, 1 to 14 s each; phase retrieval, in 10,000 dimensions, is a guess"

COSTS = {
    "sensing": {"paper": Cost(why="hours", hours=40, minutes=40, gigabytes=60, value=0.5, basis=_SENSING)},
}
