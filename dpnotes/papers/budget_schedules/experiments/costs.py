"""The costs of the longer profiles, and the reasons why some are outstanding."""

from dpnotes.experiments.costs import Cost

_PILOTS = "hours measured; minutes from pilots on one core"
_OPERATIONS = "hours measured; minutes from the operations of a run of mnist35"

COSTS = {
    "influence": {"paper": Cost(why="hours", hours=2.5, minutes=2, gigabytes=8, basis=_PILOTS)},
    "mnist35": {"paper": Cost(why="hours", hours=1.6, minutes=5, gigabytes=8, value=2, basis=_PILOTS)},
    "momentum": {"paper": Cost(why="hours", hours=0.2, minutes=1, gigabytes=8, value=0.5, basis=_OPERATIONS)},
    "subsampled": {"paper": Cost(why="hours", hours=0.04, minutes=1, gigabytes=8, value=0.5, basis=_OPERATIONS)},
}
