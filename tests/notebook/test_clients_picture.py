"""Pictures of clients: the marked clients, the places where noise is added, and the directions of arrows."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.quiver import Quiver

from dpnotes.notebook import plots
from dpnotes.notebook.clients_picture import GUARDED, LOOKS, TRUSTED, draw_messages, draw_models, draw_who_sees


def axes():
    return plots.new_figure()[1][0]


def colours(drawn):
    return [to_hex(box.get_facecolor()).upper() for box in drawn.patches]


def test_noise_comes_in_between_who_is_trusted_and_who_is_not():
    drawn = axes()
    draw_models(drawn)
    boxes, noises = drawn.patches, [text for text in drawn.texts if text.get_text() == "+ noise"]
    assert [colours(drawn)[row * 4 : row * 4 + 4].count(TRUSTED) for row in range(3)] == [1, 2, 3]
    for row, noise in enumerate(noises):
        kinds = colours(drawn)[row * 4 : row * 4 + 4]
        last, first = kinds.count(TRUSTED) - 1, kinds.count(TRUSTED)
        left, right = (boxes[row * 4 + place].get_window_extent() for place in (last, first))
        assert left.x1 < drawn.transData.transform(noise.get_position())[0] < right.x0


@pytest.mark.parametrize(
    "others, server, looking", [(0, False, 1), (1, False, 2), (7, False, 8), (0, True, 2), (7, True, 9)]
)
def test_who_looks_is_marked_and_the_public_always_does(others, server, looking):
    drawn = axes()
    draw_who_sees(drawn, 8, others, server)
    found = colours(drawn)
    assert found.count(LOOKS) == looking and found[0] == TRUSTED and found.count(GUARDED) == 9 - looking
    assert sum(text.get_text() == "looks" for text in drawn.texts) == others


def test_arrows_are_steps_against_the_gradients_from_one_place():
    drawn, sent = axes(), np.array([[1.0, 0.0], [0.0, 2.0], [-1.0, 1.0]])
    draw_messages(drawn, [0.5, -0.5], sent, sent.mean(0), [0.0, 1.0])
    for arrows, gradients in zip(drawn.collections, (sent, sent.mean(0)[None], [[0.0, 1.0]]), strict=True):
        assert isinstance(arrows, Quiver)
        assert np.allclose(np.stack([arrows.U, arrows.V], 1), -np.asarray(gradients))
        assert np.allclose(arrows.get_offsets(), [0.5, -0.5])


def test_of_many_clients_some_are_drawn_and_the_legend_says_so():
    drawn, sent = axes(), np.arange(128.0).reshape(64, 2)
    draw_messages(drawn, [0, 0], sent, sent.mean(0), [0.0, 1.0])
    arrows = drawn.collections[0]
    assert isinstance(arrows, Quiver) and arrows.get_label() == "8 of 64 clients"
    assert np.array_equal(arrows.U, -sent[::8, 0])
