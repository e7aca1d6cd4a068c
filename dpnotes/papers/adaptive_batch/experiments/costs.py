"""What the longer profiles take, and why one that is not stored is outstanding."""

from dpnotes.experiments.costs import Cost

COSTS = {
    "slopes": {
        "paper": Cost(why="hours", hours=0.3, basis="measured"),
    },
}
