"""The cost of an outstanding result, and the reason why it is outstanding: stated beside the experiments.

Hours are on two cores of a common processor, minutes and gigabytes on one large GPU, all with the code of this package.
"""

from dataclasses import dataclass
from typing import Literal

from dpnotes.util import validate
from dpnotes.util.validate import Positive, checked


@checked
@dataclass(frozen=True, kw_only=True)
class Cost:
    """The cost of one profile of an experiment.

    Args:
      why: it is outstanding: "a GPU" (nobody would wait for two cores), "missing weights" (that were not to be had), or
        "hours" (on two cores; nothing else is in the way).
      hours: on two cores, all cells.
      basis: where the hours and minutes come from.
      minutes: on one GPU, all cells; None if a GPU is of no use.
      gigabytes: of the GPU's memory; required with minutes.
      value: in figures of the paper: 1 for one whole, less for a part of one or for what another profile shows already.
      missing: what is missing, in words; required where weights are.

    Raises:
      ValueError: an unknown reason, a number that is not above 0, minutes without gigabytes, weights without a name.

    >>> print(Cost(why="a GPU", hours=160, minutes=20, gigabytes=12, basis="estimated from operations"))
    a GPU: 20 minutes and 12 GB on one, 160 hours on two cores (estimated from operations)
    >>> print(Cost(why="hours", hours=3.2, basis="measured on a tenth"))
    hours: 3.2 on two cores (measured on a tenth)
    """

    why: Literal["a GPU", "missing weights", "hours"]
    hours: Positive
    basis: str
    minutes: float | None = None
    gigabytes: float | None = None
    value: Positive = 1.0
    missing: str = ""

    def __post_init__(self) -> None:
        if self.minutes is not None:
            validate.positive(minutes=self.minutes, gigabytes=self.gigabytes or 0)
        elif self.why == "a GPU":
            raise ValueError("Expected minutes of what waits for a GPU.")
        if bool(self.missing) != (self.why == "missing weights"):
            raise ValueError(f"Expected missing={self.missing!r} to name the weights where they are why={self.why!r}.")

    @property
    def rate(self) -> float:
        """Value per minute on a GPU; 0 where it is of no use, or where something is missing."""
        return 0.0 if self.minutes is None or self.missing else self.value / self.minutes

    def __str__(self) -> str:
        cores = f"{self.hours:g}{'' if self.why == 'hours' else ' hours'} on two cores"
        gpu = "" if self.minutes is None else f"{self.minutes:g} minutes and {self.gigabytes:g} GB on "
        parts = {
            "hours": [cores, f"{gpu}a GPU" if gpu else ""],
            "a GPU": [f"{gpu}one", cores],
            "missing weights": [self.missing, f"then {gpu}a GPU" if gpu else "", cores],
        }[self.why]
        return f"{self.why}: {', '.join(part for part in parts if part)} ({self.basis})"
