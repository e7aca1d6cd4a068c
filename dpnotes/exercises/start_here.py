"""The exercise of notebooks/00_start_here."""

import math

from dpnotes.notebook.teaching import exercise


@exercise
def mean_exercise(function):
    """Put your code in place of the dots and run the cell. `mean_exercise.hint()` gives one hint at a time,
    `mean_exercise.solution()` the solution.

    Hints:
      Clip first: np.clip cuts values off on both sides. Then no number counts for more than the bound.

      By how much can the mean of the clipped values move, if one of them goes from one end of its range to the other?
    """
    # The noise depends on how far one value can move the answer.
    values, bound, sigma, noise = [0.5, -3.0, 40.0, 1.5], 2.0, 1.5, 0.3
    exact = lambda *first: float(function([*first, *values[len(first) :]], bound, sigma, 0.0))
    if not math.isclose(exact(0.5, 1.0, -1.0, 1.5), 0.5):
        return "values within the bound should be left alone: without noise, the result is not their mean."
    for end, side in ((1e9, "above"), (-1e9, "below")):
        if abs(exact(end) - exact(0.5)) > bound:
            return f"nothing is clipped from {side}: one person can move the mean by any amount."
    sensitivity = exact(1e9) - exact(-1e9)
    if not math.isclose(exact(0.9 * bound) - exact(0.0), 0.9 * bound / len(values)):
        return "a value just within the bound is changed."
    added = (float(function(values, bound, sigma, noise)) - exact()) / (sigma * noise)
    if added == 0:
        return "you added no noise."
    if math.isclose(added, sensitivity):
        return ""
    if math.isclose(added, sensitivity / 2):
        return "that is the sensitivity if a value is left out. Here one is replaced: how far apart are the two ends?"
    if math.isclose(added, sensitivity * len(values)):
        return "that is the noise for the sum. By how much does the mean move?"
    return f"the noise is too {'weak' if abs(added) < sensitivity else 'strong'}: how far can one value move your mean?"
