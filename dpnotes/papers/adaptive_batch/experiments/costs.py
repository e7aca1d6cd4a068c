"""What the profiles that are not stored would take, and why they are not."""

from dpnotes.experiments.costs import Cost

COSTS = {
    "slopes": {
        "paper": Cost(
            why="hours", hours=4, basis="from the quick profile: accuracies to half as far, twice the repeats"
        )
    },
}
