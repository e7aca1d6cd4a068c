"""Widgets driven without a browser, and the drawing functions they use."""

import base64
import io
import itertools
import re

import ipywidgets
import numpy as np
import pytest
from matplotlib.collections import QuadMesh
from PIL import Image
from traitlets import TraitError

from dpnotes.notebook import plots
from dpnotes.notebook.widgets import KEPT, STILL, UNDRAWN, Explorer, explore, log_slider, slider


def explorer(compute=None, **options):
    """Return an explorer with one slider, whose picture is a line at the height of the data."""
    return Explorer(
        controls={"side": slider("side", 1, 9, value=3)},
        compute=compute or (lambda side: {"area": side**2}),
        draw=lambda data, axes: plots.curve(axes, [0, 1], [0, data["area"]]),
        describe=lambda data: f"The area is {data['area']}.",
        **options,
    )


def refuses_four(side):
    if side == 4:
        raise ValueError("Expected side=4 < 4 & odd.")
    return {"area": side**2}


def test_setting_a_control_moves_data_readout_and_picture():
    shown = explorer()
    before = shown.png
    shown.controls["side"].value = 5
    assert shown.data == {"area": 25}
    assert shown.readout.value == "The area is 25."
    assert shown.png != before
    shown.controls["side"].value = 3
    assert shown.png == before  # the picture depends on the data alone, not on earlier pictures


def test_the_cells_of_a_widget_run_again_in_any_order():
    def square(side):
        return {"area": side**2}

    cells = {
        "computes": lambda: kept.update(now=explore(side=slider("side", 1, 9, value=3))(square)),
        "draws": lambda: kept["now"].draws(lambda data, axes: plots.curve(axes, [0, 1], [0, data["area"]])),
        "says": lambda: kept["now"].says(lambda data: f"The area is {data['area']}."),
        "reads": lambda: kept["now"].controls["side"].set_trait("value", 4),
    }
    kept, once = {}, [*cells.values()]
    once[0]()
    assert UNDRAWN in kept["now"]._repr_html_() and kept["now"].data == square(3)
    for order in itertools.permutations(once):
        for cell in [*once, *order]:
            cell()
        assert kept["now"].data == square(4 if order.index(once[3]) > order.index(once[0]) else 3)
        for cell in once[1:3]:
            cell()
        assert kept["now"].png and kept["now"].readout.value == f"The area is {kept['now'].data['area']}."


def test_a_picture_that_ignored_its_data_would_be_noticed():
    shown = explorer()
    shown._draw = lambda data, axes: plots.curve(axes, [0, 1], [0, 1])
    shown.run()
    before = shown.png
    shown.controls["side"].value = 5
    assert shown.png == before


def test_bad_input_is_a_message_and_the_widget_lives_on():
    shown = explorer(refuses_four)
    picture = shown.png
    shown.controls["side"].value = 4
    assert shown.error == "Expected side=4 < 4 & odd."
    assert "Expected side=4 &lt; 4 &amp; odd." in shown.readout.value and KEPT in shown.readout.value
    assert shown.data == {"area": 9} and shown.png == picture
    shown.controls["side"].value = 5
    assert shown.error is None and shown.data == {"area": 25} and shown.readout.value == "The area is 25."


def test_our_own_mistake_is_shown_and_raised():
    shown = explorer(lambda side: {"area": side**2} if side < 4 else {})
    with pytest.raises(KeyError):
        shown.controls["side"].value = 4
    assert "KeyError" in shown.readout.value


def test_an_error_while_drawing_is_our_mistake_too():
    def draw(data, axes):
        raise ValueError("no such colour")

    with pytest.raises(ValueError, match="no such colour"):
        Explorer({"side": slider("side", 1, 9, value=3)}, lambda side: {}, draw, lambda data: "")


def test_a_button_waits_rests_and_runs():
    calls = []

    def compute(side):
        calls.append((side, shown.run_button.disabled if calls else None, shown.readout.value if calls else None))
        return {"area": side**2}

    shown = explorer(compute, button="Run")
    shown.controls["side"].value = 5
    assert shown.data == {"area": 9} and "press “Run”" in shown.readout.value
    shown.run_button.click()
    assert calls[-1] == (5, True, "Running …")
    assert shown.data == {"area": 25}
    assert not shown.run_button.disabled and not shown.controls["side"].disabled


@pytest.mark.parametrize("error, shown_as", [(ValueError("too big"), "too big"), (KeyboardInterrupt(), "Stopped")])
def test_a_button_comes_back_after_an_error(error, shown_as):
    def compute(side):
        if side == 4:
            raise error
        return {"area": side**2}

    shown = explorer(compute, button="Run")
    shown.controls["side"].value = 4
    shown.run_button.click()
    assert shown_as in shown.readout.value and not shown.run_button.disabled and shown.data == {"area": 9}


def test_hidden_means_not_computed():
    calls = []
    shown = explorer(lambda side: calls.append(side) or {"area": side}, button="Reveal", still="<p>Reveal it</p>")
    assert not calls and shown.data is None and "Reveal" in shown.readout.value
    assert shown.image.layout.display == "none"
    assert shown.png == b"" and "Reveal" in shown._repr_mimebundle_()["text/html"]
    shown.run_button.click()
    assert calls == [3] and shown.png and shown.image.layout.display is None


def test_the_stored_form_is_stable_and_has_a_picture():
    bundle = explorer()._repr_mimebundle_()
    assert bundle["text/plain"] == "Explorer(side)"
    picture = re.fullmatch(
        r'<figure><style>[^<]*</style><img alt="The area is 9." [^>]* src="data:image/webp;base64,([^"]*)">'
        rf"<figcaption>The area is 9. <em>{re.escape(STILL)}</em></figcaption></figure>",
        bundle["text/html"],
    )
    assert picture and base64.b64decode(picture[1])[8:12] == b"WEBP"
    assert "application/vnd.jupyter.widget-view+json" in bundle


def test_the_live_picture_says_what_the_readout_says():
    shown = explorer()
    assert 'alt="The area is 9."' in shown.image.value
    shown.controls["side"].value = 5
    assert 'alt="The area is 25."' in shown.image.value


def test_layout_freezes_after_the_first_drawing():
    shown = explorer()
    place = shown.axes[0].get_position().bounds
    shown.controls["side"].value = 9
    assert shown.axes[0].get_position().bounds == place


def test_a_picture_follows_a_slider_that_is_dragged_unless_it_waits_for_a_button():
    followed, waiting = slider("side", 1, 9, value=3), slider("side", 1, 9, value=3)
    for control, button in ((followed, None), (waiting, "Run")):
        Explorer({"side": control}, lambda side: {}, lambda data, axes: None, lambda data: "", button=button)
    assert followed.continuous_update and not waiting.continuous_update


@pytest.mark.parametrize("low, high, value, step", [(0, 1, 0.55, 0.1), (1, 9, 10, 1), (0, 10, 3, 2)])
def test_slider_start_values_lie_on_the_grid(low, high, value, step):
    with pytest.raises(ValueError, match="on the grid"):
        slider("x", low, high, value=value, step=step)


def test_sliders_keep_the_value_they_are_given():
    assert isinstance(slider("x", 1, 9, value=3), ipywidgets.IntSlider)
    assert slider("x", 0, 1, value=0.7, step=0.05).value == 0.7
    assert slider("x", 0, 1, value=0.7, step=0.05).readout_format == ".2f"
    control = log_slider("delta", 1e-10, 1e-3, value=1e-8, per_decade=1)
    assert control.value == 1e-8 and [option[1] for option in control.options][:2] == [1e-10, 1e-9]
    with pytest.raises(TraitError, match="value not found"):
        log_slider("noise", 0.1, 100, value=3, per_decade=1)


# ---------------------------------------------------------------- plots
def drawn(draw):
    figure, (axes,) = plots.new_figure()
    draw(axes)
    return plots.png(figure)


def test_a_picture_is_the_same_bytes_each_time():
    first = drawn(lambda axes: plots.curve(axes, [1, 2], [3, 4]))
    assert first == drawn(lambda axes: plots.curve(axes, [1, 2], [3, 4]))
    assert first != drawn(lambda axes: plots.curve(axes, [1, 2], [3, 5]))


@pytest.mark.slow
def test_a_wiped_figure_is_as_good_as_a_new_one():
    def draw(axes, scale):
        plots.curve(axes, [1, 10, 100], [scale, 2 * scale, 3 * scale], label="bound", log="x")
        plots.log_axis(axes, "x", 1, 100)
        plots.label(axes, x="examples", legend=True)

    figure, (axes,) = plots.new_figure()
    for scale in (7.0, 3.0):
        plots.wipe(axes)
        draw(axes, scale)
        picture = plots.png(figure)
    assert picture == drawn(lambda axes: draw(axes, 3.0))


def test_bars_that_were_wiped_leave_the_legend():
    _, (axes,) = plots.new_figure()
    for count in (3, 2):
        plots.wipe(axes)
        axes.barh(range(count), range(count), label="bars")
        plots.label(axes, legend=True)
    legend = axes.get_legend()
    assert legend is not None and [text.get_text() for text in legend.get_texts()] == ["bars"]


def test_a_heat_map_can_be_wiped_and_drawn_again():
    def draw(axes, scale):
        plots.heat_map(axes, [1, 2, 3], [1, 2], scale * np.arange(6).reshape(2, 3), contours=[2.5, 3.5])
        plots.label(axes, x="examples")

    figure, (axes,) = plots.new_figure()
    pictures = []
    for scale in (2.0, 1.0, 2.0, 1.0):
        plots.wipe(axes)
        draw(axes, scale)
        pictures.append(plots.png(figure))
    assert len(axes.texts) > 0, "the contours are labelled"
    assert pictures[1] == pictures[3] != pictures[2]


def test_log_axes_agree_with_the_data_drawn_on_them():
    _, (axes,) = plots.new_figure()
    plots.curve(axes, [1e-3, 10.0], [1.0, 0.0], log="xy")
    assert np.asarray(axes.lines[0].get_xdata()).tolist() == [-3.0, 1.0]
    assert np.isnan(np.asarray(axes.lines[0].get_ydata())[1])  # 0 has no logarithm: a gap, not an error
    plots.log_axis(axes, "x", 1e-3, 1e9)
    assert [text.get_text() for text in axes.get_xticklabels()] == ["10⁻³", "1", "10³", "10⁶", "10⁹"]
    plots.log_axis(axes, "y", 2, 6)
    assert [text.get_text() for text in axes.get_yticklabels()] == ["2", "5"]


def test_a_budget_bar_shows_shares():
    _, (axes,) = plots.new_figure()
    plots.budget_bar(axes, [[0.5, 0.25, 0.0], [0.2, 0.3, 0.5]], ["short", "full"])
    widths = [np.asarray(mesh.get_coordinates())[0, :, 0] for mesh in axes.collections if isinstance(mesh, QuadMesh)]
    np.testing.assert_allclose(widths[0], [0, 0.5, 0.75])
    np.testing.assert_allclose(widths[1], [0, 0.2, 0.5, 1.0])


def ink(draw):
    """Return the columns of a picture of axes from 0 to 1 that contain something."""
    figure, (axes,) = plots.new_figure()
    axes.set_axis_off()
    draw(axes)
    axes.set(xlim=(0, 1), ylim=(0, 1))
    with Image.open(io.BytesIO(plots.png(figure))) as image:
        return np.flatnonzero((np.asarray(image) < 255).any(axis=(0, 2)))


def test_a_curve_of_one_point_is_seen():
    for x, y in (([0.5], [0.5]), ([0.2, 0.5, 0.8], [np.nan, 0.5, np.nan])):
        assert 10 <= len(ink(lambda axes, x=x, y=y: plots.curve(axes, x, y))) <= 18


def test_marks_on_the_border_are_whole_and_those_beyond_it_are_not_drawn():
    inside, border, beyond = (len(ink(lambda axes, x=x: plots.points(axes, [x], [0.5]))) for x in (0.5, 1.0, 1.1))
    assert border == inside > beyond == 0


def test_a_picture_carries_its_description():
    picture = plots.Picture(plots.new_figure()[0], "An $x < y$ \\varepsilon.")
    assert repr(picture) == picture.description
    found = re.fullmatch(
        r'<style>[^<]*</style><img alt="An x &lt; y ε\." width="720" [^>]* src="data:image/webp;base64,([^"]*)">',
        picture._repr_html_(),
    )
    with Image.open(io.BytesIO(base64.b64decode(found[1] if found else ""))) as image:
        assert image.format == "WEBP" and image.size == (1440, 720), "twice the page's pixels"
