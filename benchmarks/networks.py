"""One step of the ConvNet of Avdiukhin et al., timed in turn with plain torch and with Opacus.

Two tables, for 3 x 32 x 32 images: steps without clipping (batch normalisation, as in the paper) against plain SGD, and
clipped steps (group normalisation) against Opacus by hooks and by ghost clipping. No column draws noise, since the
clipped sum is compared. The columns are timed in turn, step by step, so that changes in the machine's speed affect all
of them; compare the ratios of the medians. Memory is the peak of a GPU; on a CPU it is not measured.
"""

import argparse
import statistics
import time
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn

from dpnotes.problems.architectures import Norm, conv_net
from dpnotes.problems.modules import ModuleProblem
from dpnotes.random.streams import Streams

CLIP, STEP_SIZE, NUM_CLASSES = 2.5, 0.1, 10
WARM_UP = 2


def data(device: str, batch: int) -> tuple[Tensor, Tensor]:
    """Return Gaussian images of a whole batch, and labels."""
    drawn = Streams.of("benchmark", ["images"]).normal("images", 0, batch * 3 * 32 * 32)
    return drawn.view(batch, 3, 32, 32).float().to(device), (torch.arange(batch) % NUM_CLASSES).to(device)


def plain(device: str, batch: int, norm: Norm, autocast: torch.dtype | None) -> Callable[[], None]:
    """Return a step of torch.optim.SGD, the baseline."""
    inputs, labels = data(device, batch)
    model = conv_net(norm=norm).to(device)
    if device == "cuda":
        inputs, model = inputs.to(memory_format=torch.channels_last), model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.SGD(model.parameters(), lr=STEP_SIZE)

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast(device, dtype=autocast, enabled=autocast is not None):
            loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()

    return step


def ours(device: str, batch: int, norm: Norm, autocast: torch.dtype | None, clipped: bool) -> Callable[[], None]:
    """Return a step of one run on a given batch."""
    inputs, labels = data(device, batch)
    problem = ModuleProblem(conv_net(norm=norm), inputs, labels, autocast=autocast, channels_last=device == "cuda")
    x = problem.initial(Streams.of("benchmark", ["run"], device))
    examples = torch.arange(batch, device=device)[None]
    uniform = torch.full((1, batch), 1 / batch, device=device)

    def step() -> None:
        gradients = problem.gradients(x, examples)
        weights = CLIP / gradients.norms().clamp_min(CLIP) / batch if clipped else uniform
        x.sub_(gradients.weighted_sum(weights), alpha=STEP_SIZE)

    return step


def opacus(device: str, batch: int, mode: str) -> Callable[[], None]:
    """Return an Opacus step without noise, with per-sample gradients by hooks or by ghost clipping."""
    from opacus import PrivacyEngine  # pyright: ignore[reportMissingImports]

    inputs, labels = data(device, batch)
    model = conv_net(norm="group").to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=STEP_SIZE)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs, labels), batch_size=batch)
    made = PrivacyEngine().make_private(
        module=model,
        optimizer=optimizer,
        criterion=nn.CrossEntropyLoss(),
        data_loader=loader,
        noise_multiplier=0.0,
        max_grad_norm=CLIP,
        poisson_sampling=False,
        grad_sample_mode=mode,
    )
    model, optimizer, criterion = (made[0], made[1], made[2] if mode == "ghost" else nn.CrossEntropyLoss())

    def step() -> None:
        optimizer.zero_grad()
        criterion(model(inputs), labels).backward()
        optimizer.step()

    return step


def columns(device: str, batch: int, clipped: bool, autocast: torch.dtype | None) -> dict[str, Callable[[], None]]:
    """Return the columns of one table, with the baseline first; the Opacus columns ignore autocast."""
    if not clipped:
        return {
            "plain torch SGD": plain(device, batch, "batch", autocast),
            "dpnotes, not clipped": ours(device, batch, "batch", autocast, clipped=False),
        }
    found = {
        "plain torch SGD": plain(device, batch, "group", autocast),
        "dpnotes, clipped": ours(device, batch, "group", autocast, clipped=True),
    }
    if autocast is None:
        found["Opacus, hooks"] = opacus(device, batch, "hooks")
        found["Opacus, ghost clipping"] = opacus(device, batch, "ghost")
    return found


def table(steps: dict[str, Callable[[], None]], device: str, rounds: int) -> list[tuple[str, float, float, float]]:
    """Return name, median milliseconds per step, ratio to the first column, and peak GiB above the memory before."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    memory = dict.fromkeys(steps, float("nan"))
    for number in range(-WARM_UP, rounds):
        for name, step in steps.items():
            if device == "cuda":
                torch.cuda.synchronize()
                torch.cuda.reset_peak_memory_stats()
                held = torch.cuda.memory_allocated()
            start = time.perf_counter()
            step()
            if device == "cuda":
                torch.cuda.synchronize()
                memory[name] = (torch.cuda.max_memory_allocated() - held) / 2**30
            if number >= 0:
                times[name].append(1e3 * (time.perf_counter() - start))
    medians = {name: statistics.median(values) for name, values in times.items()}
    floor = next(iter(medians.values()))
    return [(name, median, median / floor, memory[name]) for name, median in medians.items()]


def main() -> None:
    """Print the tables for the CPU, and for the GPU if there is one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("device", nargs="*", default=["cpu", "cuda"])
    parser.add_argument("--batch", type=int, help="examples of a step; 16 on a CPU and 512 on a GPU")
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", module="opacus")
    warnings.filterwarnings("ignore", message=".*non-full backward hook.*|.*Full backward hook.*")
    for device in arguments.device:
        if device == "cuda" and not torch.cuda.is_available():
            print("cuda: outstanding, this machine has no GPU")
            continue
        batch = arguments.batch or (16 if device == "cpu" else 512)
        for autocast in (None, torch.bfloat16) if device == "cuda" else (None,):
            for clipped in (False, True):
                print(f"{device}, {torch.get_num_threads()} threads, batch {batch}, {autocast or torch.float32}:")
                rows = table(columns(device, batch, clipped, autocast), device, arguments.rounds)
                for name, milliseconds, ratio, gibibytes in rows:
                    memory = "" if device == "cpu" else f"   {gibibytes:6.2f} GiB"
                    print(f"  {name:24s} {milliseconds:9.1f} ms a step   {ratio:6.3f} x plain{memory}")


if __name__ == "__main__":
    main()
