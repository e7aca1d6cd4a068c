"""The solutions of notebooks/bring_your_own."""

from dpnotes.solutions import Solution


def release(gradients, longest, noise_multiplier, batch_size, normal):
    lengths = gradients.norm(dim=1, keepdim=True)
    clipped = gradients / (lengths / longest).clamp_min(1)
    return (clipped.sum(0) + noise_multiplier * longest * normal) / batch_size


def mean_clipped(gradients, longest, noise_multiplier, batch_size, normal):
    mean = gradients.sum(0) / batch_size
    return mean / (mean.norm() / longest).clamp_min(1) + noise_multiplier * longest / batch_size * normal


def absolute_error(outputs, targets):
    return (outputs[:, 0] - targets).abs()


SOLUTIONS = {
    "release_exercise": Solution(
        release,
        [
            lambda gradients, longest, noise, batch_size, normal: release(
                gradients, longest, noise, len(gradients), normal
            ),
            mean_clipped,
            lambda gradients, *setting: release(1e9 * gradients, *setting),  # all of one length
            lambda gradients, longest, noise, *rest: release(gradients, longest, noise / longest, *rest),
            lambda gradients, longest, noise, *rest: release(gradients, longest, 0.0, *rest),
        ],
    ),
    "loss_exercise": Solution(
        absolute_error,
        [
            lambda outputs, targets: absolute_error(outputs, targets).mean(),
            lambda outputs, targets: (outputs - targets).abs(),  # every output with every target
            lambda outputs, targets: (outputs - targets).abs().mean(1),
            lambda outputs, targets: absolute_error(outputs, targets) ** 2,
        ],
    ),
    "best_of_three": Solution(
        6,
        [2, 2 / 3, 4],
        "2 + 2 + 2 = 6: choosing is a function of all three releases. An accountant finds less than their sum, and "
        "more than 2.",
    ),
}
