"""Figures 1 and 3: accuracy on CIFAR-10 against epsilon. The specs alone; the code stands in `cifar10` and `curves`."""

from typing import Any

from dpnotes.experiments import NOT_STATED, Experiment, PaperFigure, Spec
from dpnotes.papers.noisy_sgd.experiments import cifar10, curves, figures
from dpnotes.problems.datasets.cifar import CIFAR10_JPEG_FILES

_CLOSE, _MARGIN, _DROP = [4.0, 8.0], 0.05, 0.02
_STATED: dict[str, Any] = {
    "epsilons": [0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0],
    "delta": 0.01,
    "step_size": 0.1,
    "norm_bound": 2.5,
}
# The paper states none of these.
_CHOSEN: dict[str, Any] = {
    "c_1": 1.0,
    "c_2": 1.0,
    "batch_size": 512,
    "epochs": 24,
    "augment": True,
    "statistics_batches": 20,
    "norm_batches": 4,
    "examples_at_once": 1024,
    "evaluate_every": 2,
    "checkpoint_every": 4,
    "not_stated_by_the_paper": "batch size, epochs, augmentation, c_1 and c_2, sampling; momentum and decay: none here",
}
_DECISION: dict[str, Any] = {
    "decision_rule": curves.rule(_MARGIN, _DROP, _CLOSE),
    "earlier_rule": curves.EARLIER_RULE,
    "close": _CLOSE,
    "margin": _MARGIN,
    "drop": _DROP,
}
_PAPER: dict[str, Any] = {
    **_DECISION,
    **_STATED,
    **_CHOSEN,
    "seed": "images, second",
    "data": {"name": "cifar10-jpeg", "classes": list(range(10)), "train": 50_000, "test": 10_000, "pixels": 32},
    "clipped": False,
    "first_repeat": 0,
    # Joint intervals of nine differences need them (see `worlds`): with three they hardly ever decide.
    "repeats": 7,
}
_QUICK: dict[str, Any] = {
    **_PAPER,
    "data": {"name": "cifar10-jpeg", "classes": [0, 1], "train": 1000, "test": 1000, "pixels": 16},
    "epsilons": [0.125, 1.0, 8.0],
    "decision_rule": curves.rule(_MARGIN, _DROP, [8.0]),
    "close": [8.0],
    "batch_size": 100,
    "epochs": 8,
    "augment": False,
    "statistics_batches": 5,
    "norm_batches": 2,
    "examples_at_once": 250,
    "evaluate_every": 4,
    "checkpoint_every": 4,
    "repeats": 8,
}
# All images in their size, a quarter of the channels: seven core-hours. A cell takes 17 minutes, a step under 1 s, and
# keeps itself every epoch.
_CPU: dict[str, Any] = {
    **_PAPER,
    "epsilons": [0.125, 0.5, 2.0, 8.0],
    "decision_rule": curves.rule(_MARGIN, _DROP, [8.0]),
    "close": [8.0],
    "epochs": 10,
    "statistics_batches": 10,
    "norm_batches": 2,
    "examples_at_once": 512,
    "evaluate_every": 5,
    "checkpoint_every": 1,
    "repeats": 5,
    "speaks_of": "whether accuracy grows with epsilon, and of gaps; not of the paper's accuracies. A quarter of the "
    "channels makes 143 thousand parameters of 2.3 million, so that at equal Delta the noise is four times shorter.",
}
# Lemma 3.2 needs constants that no network has; these are ones, so that C is 12.0.
_LEMMA_3_2 = {"L": 1.0, "f_max": 1.0, "sigma": 1.0, "c": 1.0}
_PIXELS = (
    "The images are a JPEG-coded copy of CIFAR-10, off the official pixels by a root mean square of about 7 of 255."
)
_COMMON_GAPS = (
    _PIXELS,
    "The step size was tuned on the data by the paper.",
    "The runs of a repeat share their noise: a guarantee would hold for one of them alone.",
    "The losses and accuracies shown are exact statistics of private data.",
    "delta = 0.01 allows to publish one example in a hundred.",
)
_MEASURED = (
    "C = 2.5 was measured on the data by the paper, which no guarantee covers; nor does one cover the norms "
    "of gradients that we measure.",
)
_NOMINAL = (
    "Epsilon is nominal: no guarantee stands behind it. Theorem 3.3 with c_2 = 1 is taken at its word; the accounted "
    "epsilon beside it would hold if C bounded the gradients of all examples, which nothing enforces.",
    "Batch normalisation mixes examples, so that no example has a gradient of its own, and uses statistics without "
    "noise.",
)


def _network(name: str, norm: str, width: int = 64) -> dict[str, Any]:
    return {"name": name, "norm": norm, "width": width}


def _experiment(
    name: str,
    title: str,
    question: str,
    gaps: tuple[str, ...],
    figure: PaperFigure,
    profiles: dict[str, dict[str, Any]],
) -> Experiment:
    return Experiment(
        paper="noisy_sgd",
        name=name,
        title=title,
        question=question,
        specs={profile: Spec("noisy_sgd", name, profile, parameters) for profile, parameters in profiles.items()},
        cells=curves.cells,
        run_cell=cifar10.run_cell,
        decide=curves.decide,
        rule=curves.RULE,
        tolerances=curves.TOLERANCES,
        unaccounted=(*gaps, *_COMMON_GAPS),
        data=tuple(map(str, CIFAR10_JPEG_FILES)),
        figure=figure,
    )


_FIGURE_1A = figures.cifar10("Figures 1a (test) and 3a (training)")
CONVNET = _experiment(
    "convnet",
    "Figures 1a and 3a: the ConvNet on CIFAR-10 (JPEG-coded) without clipping, C = 2.5",
    "Does accuracy grow with epsilon, and is it close to that without privacy at 4 and 8?",
    (*_NOMINAL, *_MEASURED),
    _FIGURE_1A,
    {
        "quick": {**_QUICK, "network": _network("convnet", "batch", 4)},
        "cpu": {**_CPU, "network": _network("convnet", "batch", 16)},
        "paper": {**_PAPER, "network": _network("convnet", "batch")},
    },
)
CONVNET_MORE = _experiment(
    "convnet_more",
    "Figures 1a and 3a, CIFAR-10 (JPEG-coded): three further repeats, which make ten",
    "Does accuracy grow with epsilon, and is it close to that without privacy at 4 and 8?",
    (*_NOMINAL, *_MEASURED),
    _FIGURE_1A,
    {"paper": {**_PAPER, "network": _network("convnet", "batch"), "first_repeat": 7, "repeats": 3}},
)
CONVNET_CLIPPED = _experiment(
    "convnet_clipped",
    "The ConvNet on CIFAR-10 (JPEG-coded) with group normalisation, clipping at 2.5 and calibrated noise",
    "What is left of Figure 1a where the guarantee holds?",
    _MEASURED,
    _FIGURE_1A,
    {
        "quick": {**_QUICK, "network": _network("convnet", "group", 4), "clipped": True},
        "paper": {**_PAPER, "network": _network("convnet", "group"), "clipped": True},
    },
)
CONVNET_LEMMA = _experiment(
    "convnet_lemma",
    "Figure 3b: the ConvNet on CIFAR-10 (JPEG-coded) without clipping, C of Lemma 3.2",
    "Does accuracy grow with epsilon where C is the theorem's?",
    _NOMINAL,
    figures.cifar10(
        "Figure 3b", "lower accuracy than with C = 2.5; curves, no number is printed", bound="of Lemma 3.2"
    ),
    {
        "paper": {
            **_PAPER,
            "network": _network("convnet", "batch"),
            "norm_bound": _LEMMA_3_2,
            "close": [],
            "decision_rule": curves.rule(_MARGIN, _DROP, []),
        }
    },
)
RESNET18 = _experiment(
    "resnet18",
    "Figure 1b: ResNet-18 on CIFAR-10 (JPEG-coded) without clipping, C = 2.5",
    "Does accuracy grow with epsilon, and is it close to that without privacy at 4 and 8?",
    (*_NOMINAL, *_MEASURED, "The paper does not state C for ResNet-18; the ConvNet's is taken."),
    figures.cifar10("Figure 1b", bound=NOT_STATED),
    {"paper": {**_PAPER, "network": _network("resnet18", "batch")}},
)
EXPERIMENTS = (CONVNET, CONVNET_MORE, CONVNET_CLIPPED, CONVNET_LEMMA, RESNET18)
