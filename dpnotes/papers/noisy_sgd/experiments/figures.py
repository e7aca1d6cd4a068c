"""The settings of the paper's figures, as far as stated (Section 4 and Appendix A), beside ours."""

from collections.abc import Callable
from fractions import Fraction

from dpnotes.experiments import NOT_STATED, PaperFigure, Setting, Spec

_GROWS = "accuracy grows with epsilon, and at 4 and 8 it is close to that without privacy; curves, no number is printed"
_SMALLER = "smaller, so that two cores can do it"


def _epsilons(spec: Spec) -> str:
    return ", ".join(str(Fraction(epsilon)) for epsilon in spec["epsilons"])


def _runs(spec: Spec) -> str:
    return f"{spec['first_repeat'] + spec['repeats']}"


_PRIVACY = (
    Setting("epsilons", "1/8, 1/4, 1/2, 1, 2, 4, 8", _epsilons, _SMALLER),
    Setting("delta", "0.01", lambda spec: f"{spec['delta']:g}"),
    Setting("step size", "0.1", lambda spec: f"{spec['step_size']:g}"),
    Setting("runs", "10", _runs, "each takes minutes on a GPU and hours without; the paper shows their mean and range"),
)
_OURS = (
    Setting("batch size", NOT_STATED, lambda spec: f"{spec['batch_size']}", "our choice"),
    Setting("epochs", NOT_STATED, lambda spec: f"{spec['epochs']}", "our choice; the noise depends on it"),
    Setting("sampling", NOT_STATED, lambda _: "batches of fixed size", "what the theorem's proof needs"),
    Setting("momentum, decay", NOT_STATED, lambda _: "none", "Algorithm 2 has none"),
    Setting("augmentation", NOT_STATED, lambda spec: "yes" if spec["augment"] else "none", "our choice"),
)


def _bound(spec: Spec) -> str:
    return "of Lemma 3.2" if isinstance(spec["norm_bound"], dict) else f"{spec['norm_bound']:g}"


def _wide(spec: Spec) -> str:
    return f"{spec['network']['width']} channels in the first layer"


def cifar10(name: str, shows: str = _GROWS, *, bound: str = "2.5") -> PaperFigure:
    """A figure of accuracy on CIFAR-10."""
    images: tuple[tuple[str, str, Callable[[Spec], str], str], ...] = (
        ("classes", "10", lambda spec: f"{len(spec['data']['classes'])}", _SMALLER),
        ("training images", "50,000", lambda spec: f"{spec['data']['train']:,}", _SMALLER),
        ("test images", "10,000", lambda spec: f"{spec['data']['test']:,}", _SMALLER),
        ("pixels a side", "32", lambda spec: f"{spec['data']['pixels']}", _SMALLER),
        ("images", "the official ones", lambda _: "a JPEG-coded copy", "off by a root mean square of 7 of 255"),
        ("network", "64 channels in the first layer", _wide, _SMALLER),
        ("normalisation", "batch", lambda spec: spec["network"]["norm"], "examples stay apart, so that clipping holds"),
        ("clipping", "none", lambda spec: "yes" if spec["clipped"] else "none", "so that a guarantee holds"),
        ("C", bound, _bound, "what was measured is not in the paper"),
    )
    return PaperFigure(name, shows, (*(Setting(*one) for one in images), *_PRIVACY, *_OURS))


def finetuning(name: str, data: str, network: str) -> PaperFigure:
    """A figure of accuracy after training on from published weights."""
    return PaperFigure(
        name, _GROWS,
        (
            Setting("data", data, lambda _: data), Setting("network", network, lambda _: network), *_PRIVACY,
            Setting("C", NOT_STATED, _bound, "that of the ConvNet"), *_OURS,
        ),
    )  # fmt: skip


# Not a figure of the paper: its question, and the paper's setting beside ours.
PRETRAINING = PaperFigure(
    "Figure 2's question, asked of our own network", _GROWS,
    (
        Setting("data", "CIFAR-100, and CoLA", lambda _: "five classes of CIFAR-10", "their weights are not here"),
        Setting("training images", NOT_STATED, lambda spec: f"{spec['data']['train']:,}"),
        Setting("pixels a side", NOT_STATED, lambda spec: f"{spec['data']['pixels']}"),
        Setting("network", "ResNet-18, and BERT-base", lambda spec: f"the ConvNet, {_wide(spec)}", _SMALLER),
        Setting("pretrained", "by others", lambda _: "by us, on CIFAR-10's other five classes", "see data"),
        Setting("layers trained", NOT_STATED, lambda _: "the last convolution and the linear one, and beside them all"),
        Setting("clipping", "none", lambda _: "none, and beside it clipping", "so that a guarantee holds"),
        Setting("noise", "of Theorem 3.3", lambda _: "calibrated as with clipping", "so that clipping alone differs"),
        Setting("sampling", NOT_STATED, lambda _: "Poisson batches", "the accountant's"),
        Setting("C", NOT_STATED, _bound, "that of the ConvNet"),
        *_PRIVACY, *(one for one in _OURS if one.what != "sampling"),
    ),
)  # fmt: skip
