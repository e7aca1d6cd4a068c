"""Interactive pictures: controls, a readout in words, and an image, which are kept in step.

An `Explorer` computes data from the values of its controls, draws them on one persistent figure and describes the
picture in words. It is redrawn by writing traits from `observe`, never through an output area, so it neither flickers
nor moves, it works wherever ipywidgets do, and a test drives it without a browser: set `.value` of a control, then read
`.data`. A reader without a kernel sees the picture as it was stored.

Notebooks write one by `@explore(...)` over the function that computes, with `.draws` and `.says` beside it.
"""

import asyncio
import contextlib
import html
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ipywidgets

from dpnotes.notebook import markup, plots, saving

Data = Mapping[str, Any]
WAITING = "The picture appears when you press “{button}”."
CHANGED = "The picture follows when you press “{button}”."
KEPT = "The picture still shows the last settings that worked."
UNDRAWN = "There is no picture yet: give this widget both .draws and .says."
STILL = "(A still: run the cell for its controls.)"
SETTLED = 0.5  # seconds without a change after which the picture is kept for the file


class Explorer:
    """Controls, readout and picture as one thing to put at the end of a cell.

    The reader's entries may be out of range: a `ValueError` or an arithmetic error of `compute` is shown in the
    readout, and the widget stays usable. Any other error is a bug: the readout names it, and it is raised.

    Args:
      controls: argument name of `compute` to the control that gives its value, in the order shown.
      compute: maps keyword arguments to data, quick (under 0.2 s) unless there is a `button`.
      draw: `draw(data, *axes)`, one axes a panel, whose last curves were removed; uses `plots`. May be given later, by
        `draws`.
      describe: maps data to a description of the picture; HTML, and mathematics between dollar signs. May be given
        later, by `says`; until both are there, data are computed and nothing is drawn.
      widths: relative widths of the panels.
      size: width and height in inches, at 100 pixels an inch.
      heading: the text above the controls; HTML, and mathematics between dollar signs.
      button: the label of a button that starts the work; controls then only announce a change.
      columns: the number of controls side by side, if there is room.
      still: with a `button`, HTML for readers without a kernel; nothing is drawn before the button is first pressed.

    Attributes:
      controls: as given.
      data: what `compute` last returned, None before that.
      error: the error of the last settings, None if there was none.
      png: the picture shown, b"" before there is one; its alternative text is the readout.
      readout, image, run_button, box: the ipywidgets it consists of (`run_button` is None without `button`).

    >>> explorer = Explorer(
    ...     controls={"side": slider("side length", 1, 9, value=3)},
    ...     compute=lambda side: {"area": side**2},
    ...     draw=lambda data, axes: axes.bar(["area"], [data["area"]]),
    ...     describe=lambda data: f"The area is {data['area']}.",
    ... )
    >>> explorer.controls["side"].value = 4
    >>> explorer.data, explorer.readout.value
    ({'area': 16}, 'The area is 16.')
    >>> explorer
    Explorer(side)
    """

    def __init__(
        self,
        controls: Mapping[str, Any],
        compute: Callable[..., Data],
        draw: Callable[..., Any] | None = None,
        describe: Callable[[Any], str] | None = None,
        widths: Sequence[float] = (1,),
        size: tuple[float, float] = (7.2, 3.6),
        heading: str = "",
        button: str | None = None,
        columns: int = 1,
        still: str = "",
    ):
        self.controls = dict(controls)
        self.data: Data | None = None
        self.error: str | None = None
        self.png = b""
        self.figure, self.axes = plots.new_figure(widths, size)
        self._compute, self._draw, self._describe, self._laid_out = compute, draw, describe, False
        self._still = still
        self._views: set[str] = set()  # models whose view stands in a cell, with the still of this explorer
        self._keeping: asyncio.TimerHandle | None = None

        for control in self.controls.values():
            if button is not None and control.has_trait("continuous_update"):
                control.continuous_update = False  # otherwise pictures follow the hand; text waits for Enter by itself
            control.style.description_width = "13em" if columns == 1 else "11em"
            control.layout.width = f"min(100%, {36 if columns == 1 else 30}em)"
            control.observe(self._changed, "value")
        self.readout = ipywidgets.HTMLMath()
        self.readout.add_class("dpnotes-readout")
        self.image = ipywidgets.HTML()  # an ipywidgets.Image has no alternative text
        self.run_button: Any = None
        if button is not None:
            self.run_button = ipywidgets.Button(description=button, button_style="primary")
            self.run_button.layout = {"width": "auto", "align_self": "flex-start"}
            self.run_button.on_click(lambda _: self.run())
        wide = {} if columns == 1 else {"max_width": f"{31 * columns}em"}
        row = ipywidgets.Box([*self.controls.values()], layout={"flex_flow": "row wrap", **wide})
        title = ipywidgets.HTMLMath(heading) if heading else None
        parts = [title, row, self.run_button, self.readout, self.image]
        self.box = ipywidgets.VBox([part for part in parts if part is not None])
        self.box.add_class("dpnotes-explorer")

        if still:
            self.readout.value = WAITING.format(button=button)
            self.image.layout.display = "none"
        else:
            self.run()

    def __call__(self, **values: Any) -> Data:
        """The data at other values than those of the controls; nothing is drawn."""
        return self._compute(**values)

    def draws(self, draw: Callable[..., Any]) -> "Explorer":
        """Draw with this function from now on; returns the explorer, so that it decorates a function of its name."""
        self._draw = draw
        return self._show_now()

    def says(self, describe: Callable[[Any], str]) -> "Explorer":
        """Describe the picture with this function from now on; returns the explorer, as `draws` does."""
        self._describe = describe
        return self._show_now()

    def _show_now(self) -> "Explorer":
        if self.data is not None:
            self._show(self.data)
        return self

    def run(self) -> None:
        """Compute and draw for the controls' values; with a button, controls are disabled during the computation."""
        if self.run_button is None:
            return self._update()
        parts = [*self.controls.values(), self.run_button]
        before, self.readout.value = [part.disabled for part in parts], "Running …"
        for part in parts:
            part.disabled = True
        try:
            self._update()
        except KeyboardInterrupt:
            self._refuse("Stopped before it had finished.")
        finally:
            for part, disabled in zip(parts, before, strict=True):
                part.disabled = disabled

    def _changed(self, _: Any) -> None:
        if self.run_button is None:
            self._update()
        else:
            self.readout.value = (WAITING if self.data is None else CHANGED).format(button=self.run_button.description)

    def _update(self) -> None:
        try:
            data = self._compute(**{name: control.value for name, control in self.controls.items()})
        except (ValueError, ArithmeticError) as error:
            return self._refuse(str(error))
        except Exception as error:
            self._refuse(f"{type(error).__name__}: {error}")
            raise
        self._show(data)

    def _show(self, data: Data) -> None:
        """Show the data; before `draws` and `says`, only keep them."""
        if self._draw is None or self._describe is None:
            self.data, self.error, self.readout.value = data, None, UNDRAWN
            return
        try:
            picture, words = self._picture(data, self._draw), markup.wrapped(self._describe(data))
        except Exception as error:
            self._refuse(f"{type(error).__name__}: {error}")
            raise
        self.data, self.error = data, None
        self.png, self.readout.value = picture, words
        self.image.value = plots.shown(self.figure, picture, words)
        self.image.layout.display = None
        self._keep_later()

    def _keep_later(self) -> None:
        """Once nothing has changed for a moment, keep the picture for the file that is saved; in a kernel only."""
        if self._keeping is not None:
            self._keeping.cancel()
        if self._views:
            with contextlib.suppress(RuntimeError):  # outside of a kernel no loop runs
                self._keeping = asyncio.get_running_loop().call_later(SETTLED, self._keep)

    def _keep(self) -> None:
        for model_id in self._views:
            saving.keep_last(model_id, self._repr_html_())

    def _picture(self, data: Data, draw: Callable[..., Any]) -> bytes:
        for text in [*self.figure.texts]:
            text.remove()
        for axes in self.axes:
            plots.wipe(axes)
        draw(data, *self.axes)
        if not self._laid_out:
            plots.make_room(self.figure)
        picture = plots.png(self.figure)
        if not self._laid_out:  # from now on the axes keep their places: cheaper, and nothing moves
            self.figure.set_layout_engine("none")
            self._laid_out = True
        return picture

    def _refuse(self, message: str) -> None:
        self.error = message
        style = "color: var(--jp-error-color1, #B00020)"
        kept = f" {KEPT}" if self.data is not None else ""
        self.readout.value = f'<span class="dpnotes-error" style="{style}">{html.escape(message)}</span>{kept}'

    def __repr__(self) -> str:
        return f"Explorer({', '.join(self.controls)})"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return self.bundle(self.box, repr(self))

    def bundle(self, box: ipywidgets.Widget, words: str) -> dict[str, Any]:
        """The forms in which a cell shows a box with this explorer: a view, a still for readers, and words."""
        self._views.add(str(box.model_id))
        self._keep_later()
        return {**(box._repr_mimebundle_() or {}), "text/plain": words, "text/html": self._repr_html_()}

    def _repr_html_(self) -> str:
        if self.data is None and self._still:
            return self._still
        if not self.png:
            return f"<p>{self.readout.value}</p>"
        picture = plots.shown(self.figure, plots.for_storing(self.png), self.readout.value)
        return f"<figure>{picture}<figcaption>{self.readout.value} <em>{STILL}</em></figcaption></figure>"


def explore(
    *,
    widths: Sequence[float] = (1,),
    size: tuple[float, float] = (7.2, 3.6),
    button: str | None = None,
    columns: int = 1,
    **controls: Any,
) -> Callable[[Callable[..., Data]], Explorer]:
    """The decorator that makes an `Explorer` of the function that computes.

    The functions that draw and describe stand below it and have its name, like the setter of a property, so that a
    notebook binds one name for a widget and its cells run in any order.

    Args:
      widths: as for `Explorer`, as are the other options.
      size: likewise.
      button: likewise.
      columns: likewise.
      controls: argument name of the function to the control that gives its value, in the order shown.

    >>> @explore(side=slider("side length", 1, 9, value=3))
    ... def square(side):
    ...     return {"area": side**2}
    >>> @square.draws
    ... def square(data, axes):
    ...     axes.bar(["area"], [data["area"]])
    >>> @square.says
    ... def square(data):
    ...     return f"The area is {data['area']}."
    >>> square.controls["side"].value = 4
    >>> square, square.readout.value, square(side=5)
    (Explorer(side), 'The area is 16.', {'area': 25})
    """

    def made(compute: Callable[..., Data]) -> Explorer:
        return Explorer(controls, compute, widths=widths, size=size, button=button, columns=columns)

    return made


class OneOf:
    """One of several explorers at a time, chosen by name; each is made when it is first chosen.

    Args:
      description: the label of the choice.
      makers: name to a function that makes the explorer.

    Attributes:
      choice: the control that chooses.
      box: the ipywidget that is shown.

    >>> def square(low):
    ...     return Explorer(
    ...         {"side": slider("side", low, 9, value=low)},
    ...         lambda side: {"area": side**2},
    ...         lambda data, axes: None,
    ...         lambda data: f"The area is {data['area']}.",
    ...     )
    >>> shown = OneOf("square", {"small": lambda: square(1), "large": lambda: square(5)})
    >>> shown.choice.value = "large"
    >>> shown.explorer.data, shown
    ({'area': 25}, OneOf(small, large))
    """

    def __init__(self, description: str, makers: Mapping[str, Callable[[], Explorer]]):
        self._makers = dict(makers)
        self._made: dict[str, Explorer] = {}
        self.choice = ipywidgets.Dropdown(options=[*makers], value=next(iter(makers)), description=description)
        self.choice.style.description_width = "11em"
        self.choice.layout.width = "min(100%, 46em)"
        self.box = ipywidgets.VBox([self.choice, self.explorer.box])
        self.choice.observe(self._chosen, "value")

    @property
    def explorer(self) -> Explorer:
        """The explorer that is shown."""
        name = self.choice.value
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def _chosen(self, _: Any) -> None:
        self.box.children = (self.choice, self.explorer.box)
        self.explorer.bundle(self.box, repr(self))  # its still stands for this box from now on

    def __repr__(self) -> str:
        return f"OneOf({', '.join(name.partition(':')[0] for name in self._makers)})"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return self.explorer.bundle(self.box, repr(self))


def slider(description: str, low: float, high: float, value: float, step: float = 1) -> Any:
    """A linear slider; if all numbers are integers, an integer slider.

    Args:
      description: the label beside it.
      low: least value.
      high: largest value.
      value: its initial value, a whole number of steps above `low`.
      step: distance of neighbouring values.

    Raises:
      ValueError: if `value` is not on the grid; a browser would silently round it.

    >>> slider("steps", 1, 150, value=60).value
    60
    >>> slider("rate", 0, 1, value=0.55, step=0.1)
    Traceback (most recent call last):
    ValueError: Expected value=0.55 on the grid from 0 to 1 by 0.1.
    """
    places = (value - low) / step
    if not low <= value <= high or abs(places - round(places)) > 1e-9:
        raise ValueError(f"Expected value={value!r} on the grid from {low} to {high} by {step}.")
    options = {"min": low, "max": high, "step": step, "value": value, "description": description}
    if all(isinstance(number, int) for number in (low, high, value, step)):
        return ipywidgets.IntSlider(**options)
    return ipywidgets.FloatSlider(**options, readout_format=f".{max(0, -math.floor(math.log10(step) + 1e-9))}f")


def log_slider(
    description: str, low: float, high: float, value: float, per_decade: int = 10, zero: bool = False
) -> Any:
    """A slider over a log scale with `per_decade` values a decade, each rounded to two digits.

    Python and the browser share its list of values, so neither rounds what the other sees.

    Args:
      description: the label beside it.
      low: least value, > 0.
      high: largest value.
      value: its initial value, one of the values.
      per_decade: values a decade; 10 gives 1, 1.3, 1.6, 2, 2.5, 3.2, 4, 5, 6.3, 7.9, 10, and 3 gives 1, 2.2, 4.6, 10.
      zero: whether 0 precedes the least value, for quantities that can be switched off.

    Raises:
      TraitError: `value` is not one of the values, says ipywidgets.

    >>> control = log_slider("training size", 100, 1e6, value=1000, per_decade=3)
    >>> [option[0] for option in control.options][:5], control.value
    (['100', '220', '460', '1,000', '2,200'], 1000.0)
    >>> log_slider("noise", 0.001, 1, value=0.01, per_decade=1, zero=True).options[:3]
    (('0', 0.0), ('0.001', 0.001), ('0.01', 0.01))
    """
    places = range(round(per_decade * math.log10(low)), round(per_decade * math.log10(high)) + 1)
    values = [0.0] * zero + [float(f"{10 ** (place / per_decade):.1e}") for place in places]
    options = [(f"{number:,.0f}" if 10 <= number < 1e7 else f"{number:g}", number) for number in values]
    return ipywidgets.SelectionSlider(options=options, value=value, description=description)
