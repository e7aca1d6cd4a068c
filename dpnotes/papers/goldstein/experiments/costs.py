"""What the longer profiles take, and why one that is not stored is outstanding."""

from dpnotes.experiments.costs import Cost

COSTS = {
    "complexity": {"paper": Cost(why="hours", hours=0.25, value=0.5, basis="measured")},
    "orders": {"paper": Cost(why="hours", hours=0.1, value=0.5, basis="measured")},
    "mnist": {"paper": Cost(why="hours", hours=0.4, value=0.5, basis="measured")},
}
