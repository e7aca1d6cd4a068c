"""What the profiles that are not stored would take, and why they are not."""

from dpnotes.experiments.costs import Cost

_PILOTS = "from pilots on one core"
_OPERATIONS = "from the operations of a run of mnist35"

COSTS = {
    "influence": {"paper": Cost(why="hours", hours=1, minutes=2, gigabytes=8, basis=_PILOTS)},
    "mnist35": {"paper": Cost(why="hours", hours=3.2, minutes=5, gigabytes=8, value=2, basis=_PILOTS)},
    "momentum": {"paper": Cost(why="hours", hours=0.5, minutes=1, gigabytes=8, value=0.5, basis=_OPERATIONS)},
    "subsampled": {"paper": Cost(why="hours", hours=0.3, minutes=1, gigabytes=8, value=0.5, basis=_OPERATIONS)},
}
