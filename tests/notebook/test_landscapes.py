"""Pictures of functions of two numbers: positions of the drawn objects, and refusals."""

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.contour import ContourSet

from dpnotes.notebook import plots
from dpnotes.notebook.landscapes import draw_level_lines, draw_paths


def axes():
    return plots.new_figure()[1][0]


def test_levels_fill_the_limits_and_are_dark_where_the_function_is_low():
    drawn = axes()
    draw_level_lines(drawn, lambda p: p[:, 0] ** 2 + 4 * p[:, 1] ** 2, (-1, 3), (-2, 2))
    (filled,) = drawn.collections
    assert (drawn.get_xlim(), drawn.get_ylim()) == ((-1, 3), (-2, 2))
    brightness = np.asarray(filled.get_facecolor())[:, :3].sum(1)
    assert len(brightness) == 24 and (np.diff(brightness) >= 0).all() and brightness[0] < brightness[-1]
    assert isinstance(filled, ContourSet)
    assert (np.diff(np.diff(np.asarray(filled.levels, dtype=float))) > 0).all(), "closer where the function is low"


def test_every_run_has_a_path_and_an_end_of_its_kind():
    generator = np.random.default_rng(0)
    paths = generator.normal(size=(7, 5, 2)).cumsum(0)
    paths[0] = 0
    chosen = np.array([True, False, True, True, False])
    drawn = axes()
    draw_paths(drawn, paths, chosen, ("out", "in"))
    for lines, kind in zip(drawn.collections, (chosen, ~chosen), strict=True):
        assert isinstance(lines, LineCollection)
        assert np.allclose(lines.get_segments(), paths[:, kind].swapaxes(0, 1))
    out, still, start = drawn.lines
    assert np.allclose(out.get_xydata(), paths[-1, chosen]) and np.allclose(still.get_xydata(), paths[-1, ~chosen])
    assert np.array_equal(start.get_xydata(), [[0, 0]])
    assert [out.get_label(), still.get_label()] == ["out: 3", "in: 2"]
