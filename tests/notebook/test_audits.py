"""Pictures of privacy: successive pictures of an explorer must stay inside its axes."""

import numpy as np

from dpnotes.core import Relation
from dpnotes.guarantees import Guarantee
from dpnotes.notebook import audits, plots
from dpnotes.privacy import risk


def test_scores_drawn_after_others_are_as_high_as_the_panel():
    _, (axes,) = plots.new_figure()
    for spread in (1.0, 100.0, 0.01):  # successive exhibits whose densities differ by thousands
        plots.wipe(axes)
        audits.draw_scores(axes, spread * np.linspace(0, 1, 50), spread * np.linspace(-1, 0, 50), threshold=0.0)
        drawn = max(patch.get_path().get_extents().ymax for patch in axes.patches)
        assert 0.9 < drawn / axes.get_ylim()[1] < 1


def test_curves_with_gaps_leave_the_others_their_room():
    _, (axes,) = plots.new_figure()
    audits.draw_curves(axes, [1, 10, 100], {"all": [1, 10, 1000], "some": [1, np.nan, np.nan]}, "step", "noise")
    assert axes.get_ylim()[1] > 3 and axes.lines[1].get_marker() != "None"


def test_trade_off_curves_are_marked_and_said_at_even_odds():
    risks = {f"epsilon {e:g}": risk.of(Guarantee(e, 1e-5, Relation.ZERO_OUT, "given")) for e in (1.0, 3.0)}
    picture = audits.trade_off_picture(risks)
    first, mark, second, other = (np.asarray(line.get_xydata()) for line in picture.figure.axes[0].lines[:4])
    assert (second[:, 1] <= first[:, 1]).all() and (second[:, 1] < first[:, 1] - 0.1).any()
    for (each,), name in ((mark, "epsilon 1"), (other, "epsilon 3")):
        assert each.tolist() == [1 - risks[name].right] * 2
        assert f"{name}: right at most {risks[name].percentage}" in picture.description
