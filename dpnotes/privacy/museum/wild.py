"""Bugs in public code, each described from its public discussion and reproduced in a few lines of our own.

The code is not the projects' own; each exhibit says which parts of the bug it reproduces and which it omits. All these
projects discussed their mistakes in public, and so they can be shown here.
"""

from functools import lru_cache

import torch

from dpnotes.core import Relation
from dpnotes.privacy.museum.collection import gaussian_claim, numbers
from dpnotes.privacy.museum.exhibit import Exhibit, Setting, Source
from dpnotes.privacy.museum.releases import averaged_sum, clipped_sum, layers, replaced_mean, shared_values


@lru_cache
def wild() -> tuple[Exhibit, ...]:
    """The exhibits of bugs in public code, by date. The last bug costs accuracy and no privacy: no audit finds it.

    Example:
      >>> for exhibit in wild():
      ...     print(f"{exhibit.source.opened} {exhibit.source.repository}: {exhibit.name}")
      2018-06-14 greenelab/SPRINT_gan: noise times the square of the clip
      2020-07-02 jax-ml/jax: one key for every layer
      2022-03-24 NVIDIA/NVFlare: values shared without noise
      2023-03-03 meta-pytorch/opacus: divided by a size that the data decide
      2026-09-17 google-deepmind/jax_privacy: noise for the sum, added to the mean
    """
    return (*_until_2022(), *_since_2023())


def _until_2022() -> tuple[Exhibit, ...]:
    """The bugs of the years until 2022."""
    return (
        Exhibit(
            name="noise times the square of the clip",
            mistake="The standard deviation of the noise has the clip twice: below 1 the noise is too small.",
            seen="greenelab/SPRINT_gan, noisy_optimizers.py",
            correct=clipped_sum,
            line="noise_std = noise_multiplier * clip",
            instead="noise_std = noise_multiplier * clip**2",
            claim=gaussian_claim(1.0, 1e-5, Relation.ZERO_OUT),
            setting=Setting(numbers(0), numbers(1), 1, {"clip": 1e-4, "noise_multiplier": 1.0}),
            source=Source(
                repository="greenelab/SPRINT_gan",
                numbers=(5,),
                opened="2018-06-14",
                mended="2018-07-03, by the commit that closes it",
                claimed="what an accountant gives for the noise multiplier",
                told="The standard deviation was the noise multiplier times the square of the clip, where the variance "
                "should have the square. An author thanks, suspects a mix-up of the two notations, and runs the "
                "training again to confirm. The reporter's other doubt, Adam, is answered: its moments are "
                "computed from the noisy gradient.",
                kept="One clipped sum, with a noise multiplier and a clip from the project's own noise_sweep.sh, 1 and "
                "1e-4. The network, its many steps and their accountant are left out.",
            ),
        ),
        Exhibit(
            name="one key for every layer",
            mistake="Every layer's noise is drawn from the same key: layers of one shape get the same noise.",
            seen="jax-ml/jax, examples/differentially_private_sgd.py",
            correct=layers,
            line="key = layer",
            instead="key = 0",
            claim=gaussian_claim(1.0, 1e-5, Relation.ZERO_OUT),
            setting=Setting(numbers(0, 0), numbers(0.6, 0.8), 2, {"width": 1, "noise_std": 1.0}),
            source=Source(
                repository="jax-ml/jax",
                numbers=(3646,),
                opened="2020-07-02",
                mended="2020-07-02, by the pull request itself",
                claimed="what an accountant gives for the noise multiplier",
                told="The example of private training added noise to all components of the gradient with one key. The "
                "author of the pull request calls the bug insidious, since nothing checked that a key is used "
                "once, and says what softened it: for another shape the same key gives other numbers.",
                kept="Two layers of one shape, where the key matters. Layers of different shapes, clipping and "
                "training are left out.",
            ),
        ),
        Exhibit(
            name="values shared without noise",
            mistake="Noise is written over some of the true values and zeros over others: the rest goes out as it is.",
            seen="NVIDIA/NVFlare, svt_privacy.py",
            correct=shared_values,
            line="released = torch.zeros_like(values)",
            instead="released = values.clone()",
            claim=gaussian_claim(1.0, 1e-5, Relation.ZERO_OUT),
            setting=Setting(numbers(0, 0), numbers(1, 1), 1, {"num_shared": 1, "noise_std": 1.0}),
            source=Source(
                repository="NVIDIA/NVFlare",
                numbers=(343,),
                opened="2022-03-24",
                mended="2022-03-24, by pull request 348",
                claimed="differential privacy by the sparse vector technique, epsilon a parameter of the filter",
                told="The filter picks weights that pass a noisy threshold, draws some of these at random for noise, "
                "and sets to zero what did not pass. What passed and was not drawn was neither: it was shared "
                "without noise. The reporter proposed to start from zeros; a maintainer called it a bug on the "
                "same day.",
                kept="One value that is shared with noise and one that must not be shared. How values are picked is "
                "left out, and the noise is Gaussian where theirs is Laplace.",
            ),
        ),
    )


def _since_2023() -> tuple[Exhibit, ...]:
    """The bugs of the years since 2023."""
    one = torch.eye(256, dtype=torch.float64)[0]
    three = torch.zeros(3, 100, dtype=torch.float64)
    three[2, 0] = 1
    two = three[:2]
    return (
        Exhibit(
            name="divided by a size that the data decide",
            mistake="The noisy sum is divided by the number of examples times the sampling rate, rounded down. One "
            "example more may change the divisor, and every output shows it by the scale of its noise.",
            seen="meta-pytorch/opacus, privacy_engine.py",
            correct=averaged_sum,
            line="size = batch_size",
            instead="size = values.shape[1]",
            claim=gaussian_claim(1.0, 1e-5, Relation.ADD_OR_REMOVE),
            setting=Setting(two, three, 100, {"batch_size": 2, "noise_multiplier": 1.0}, scaled=True),
            source=Source(
                repository="meta-pytorch/opacus",
                numbers=(571, 819),
                opened="2023-03-03",
                mended="",
                claimed="epsilon of about 1.2 in 571, where the reporter's audit finds about 2.5",
                told="571: with two or three examples an audit exceeds the claim; the size of the data leaks through "
                "the expected batch size, which is computed from it. 819 (2026-05-18): the accountant is one for "
                "sums, while versions 1.0.0 to 1.6.0 appear to divide by a floor; where it differs between "
                "neighbours and there are many outputs, two small data sets become almost fully distinguishable. "
                "A pull request, 838, is open too.",
                kept="One step at sampling rate 1, where the floor is the number of examples: two of them or three, "
                "and 100 outputs. At a smaller rate q the floor changes at about one size in 1/q only. Sampling, "
                "further steps and training are left out.",
            ),
        ),
        Exhibit(
            name="noise for the sum, added to the mean",
            mistake="The noise is for the sensitivity of the sum, and the sum was divided by the batch size before. No "
            "privacy is lost; accuracy is.",
            seen="google-deepmind/jax_privacy, examples/jax_api_example.py",
            correct=replaced_mean,
            line="sensitivity = 2 / values.shape[1]",
            instead="sensitivity = 2",
            claim=gaussian_claim(1.0, 1e-5, Relation.REPLACE_ONE),
            setting=Setting(one, -one, 1, {"noise_multiplier": 1.0}),
            source=Source(
                repository="google-deepmind/jax_privacy",
                numbers=(383,),
                opened="2026-09-17",
                mended="",
                claimed="the epsilon that the noise is calibrated for",
                told="An example of the library takes the standard deviation for the sum of clipped gradients, divides "
                "the sum by the batch size, and adds the noise after that: too much, by a factor of about the "
                "batch size. Other examples of the library add it before. A pull request, 395, is open too.",
                kept="One mean of 256 clipped values, as many as the example's batch has, when one is replaced. "
                "Training, and the fixed batches that the library's guide flags in this example, are left out.",
            ),
        ),
    )
