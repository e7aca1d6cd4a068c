"""The settings of the panes of Figure 1, as far as Section 5 states them, beside ours."""

from collections.abc import Callable

from dpnotes.experiments import NOT_STATED, PaperFigure, Setting, Spec

_COMMON = (
    Setting(
        "preprocessing", "60 principal components, mean 0, standard deviation 1",
        lambda spec: f"{spec['num_components']} principal components, mean 0, standard deviation 1",
    ),
    Setting("network", "two layers, 1000 hidden units", lambda spec: f"two layers, {spec['num_hidden']} hidden units"),
    Setting("activation", NOT_STATED, lambda spec: spec["activation"], "our choice, a smooth one"),
    Setting("batch", NOT_STATED, lambda _: "the whole data set", "what the schedules are derived for"),
    Setting("step size", "0.1", lambda spec: f"{spec['step_size']:g}"),
    Setting("clipping", "4", lambda spec: f"{spec['clip']:g}"),
    Setting("budget", "(4, 1e-08), 0.1963-zCDP", lambda spec: f"({spec['epsilon']:g}, {spec['delta']:g}), 0.1963-zCDP"),
)  # fmt: skip
_START = "uniform, as torch.nn.Linear starts"
_REPEATS = Setting(
    "repeats", "100", lambda spec: f"{spec['repeats']}", "fewer, for two cores; we show intervals beside the means"
)


def _listed(name: str) -> Callable[[Spec], str]:
    return lambda spec: ", ".join(f"{value:,g}" for value in spec[name])


LEFT = PaperFigure(
    "Figure 1, left",
    "the influence of a step's noise grows about exponentially with the step; curves, no number is printed",
    (
        Setting(
            "data", "1000 images of MNIST, 10 digits", lambda spec: f"{spec['num_examples']} images of MNIST, 10 digits"
        ),
        *_COMMON, _REPEATS,
        Setting("data scales", "10", _listed("max_norms"), "10 decides, the others are shown beside it"),
        Setting("steps", NOT_STATED, _listed("num_steps"), "the text searches 50 to 150; it decides what is seen"),
        Setting(
            "start", NOT_STATED,
            lambda spec: f"{_START}; output layer times {' or '.join(f'{s:g}' for s in spec['output_scales'])}",
            "two, since it decides what is seen",
        ),
        Setting("estimator", NOT_STATED, lambda _: "change of the loss over the added variance", "our definition"),
    ),
)  # fmt: skip
MIDDLE_AND_RIGHT = PaperFigure(
    "Figure 1, middle and right",
    "the exponential schedule has the lower loss and the higher accuracy as the training size increases; curves, no "
    "number is printed",
    (
        Setting(
            "data", "digits 3 and 5 of MNIST", lambda spec: f"digits {' and '.join(map(str, spec['classes']))} of MNIST"
        ),
        *_COMMON, Setting("start", NOT_STATED, lambda _: _START, "our choice"),
        Setting("data scale", "10", lambda spec: f"{spec['max_norm']:g}"),
        Setting(
            "steps", "the best of 50 to 150",
            lambda spec: f"the best of {min(spec['num_steps'])} to {max(spec['num_steps'])}", "fewer, for two cores",
        ),
        _REPEATS,
        Setting("sizes N", NOT_STATED, _listed("num_examples"), "up to all images of the two digits, if it is 11,552"),
        Setting("decay rates", NOT_STATED, _listed("rates"), "our choice; chosen on auxiliary data, as in the paper"),
        Setting("repeats of the tuning", NOT_STATED, lambda spec: f"{spec['auxiliary_repeats']}", "our choice"),
    ),
)  # fmt: skip
