"""Parameter counts, shapes and names of the networks; loading of a pretrained state."""

import hashlib
from typing import Any

import torch
from torch import Tensor, nn

from dpnotes.problems.architectures import conv_net, load_pretrained, resnet18


def size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def shapes(module: nn.Sequential, image: Tensor) -> list[tuple[int, ...]]:
    """Return the shapes of one image after each layer."""
    found = []
    for layer in module.eval():
        image = layer(image)
        found.append(tuple(image.shape[1:]))
    return found


def test_the_conv_net_has_the_paper_s_parameters_and_shapes() -> None:
    assert size(conv_net()) == 2_274_880
    assert size(conv_net(norm="group")) == 2_274_880
    expected = [(64, 32, 32), (128, 16, 16), (128, 16, 16), (256, 16, 16), (256, 8, 8), (256, 8, 8), (128, 6, 6)]
    expected += [(128, 1, 1), (128,), (10,), (10,)]
    with torch.device("meta"):
        assert shapes(conv_net(), torch.zeros(1, 3, 32, 32)) == expected
    convolutions = [layer for layer in conv_net().modules() if isinstance(layer, nn.Conv2d)]
    assert [(c.kernel_size[0], c.stride[0], c.padding[0]) for c in convolutions] == [
        (3, 1, 1),
        (5, 2, 2),
        *[(3, 1, 1)] * 5,
        (3, 1, 0),
    ]


def test_the_conv_net_is_what_it_says() -> None:
    """Residual blocks add, outputs are a fifth, and group normalisation has 32 groups."""
    network: Any = conv_net(width=2).eval()
    image = torch.rand(2, 3, 32, 32)
    assert torch.equal(network[2](network[:2](image)), network[:2](image) + network[2].body(network[:2](image)))
    assert torch.equal(network(image), 0.2 * network[:10](image))
    assert "0.2" in repr(network[10]) and network[9].bias is None
    kinds = {type(layer) for layer in network.modules()}
    assert {nn.BatchNorm2d, nn.ReLU, nn.MaxPool2d, nn.AdaptiveMaxPool2d} <= kinds
    groups = [layer.num_groups for layer in conv_net(norm="group").modules() if isinstance(layer, nn.GroupNorm)]
    assert groups == [32] * 8


# The sha256 of the names and shapes in torchvision.models.resnet18().state_dict(), in order.
TORCHVISION = "9682c6fd405d8d701ab48875427c1aae63e06927fe09b4b1f8d66f5cc28da7d3"


def test_resnet18_has_torchvision_s_names_and_shapes() -> None:
    with torch.device("meta"):
        network = resnet18()
    listed = [(name, tuple(tensor.shape)) for name, tensor in network.state_dict().items()]
    assert listed[:2] == [("conv1.weight", (64, 3, 7, 7)), ("bn1.weight", (64,))] and len(listed) == 122
    assert hashlib.sha256(repr(listed).encode()).hexdigest() == TORCHVISION
    assert size(network) == 11_689_512
    with torch.device("meta"):
        assert size(resnet18(10, stem="cifar")) == 11_173_962
        assert size(resnet18(10, stem="cifar", norm="group")) == 11_173_962


def test_resnet18_has_the_paper_s_shapes() -> None:
    """Table 1 of He et al. for 224 x 224 images; section 4.2's stem keeps the size of 32 x 32 ones."""
    with torch.device("meta"):
        found = shapes(resnet18(), torch.zeros(1, 3, 224, 224))
        cifar = shapes(resnet18(10, stem="cifar"), torch.zeros(1, 3, 32, 32))
    stages = [(64, 56, 56), (128, 28, 28), (256, 14, 14), (512, 7, 7)]
    assert found == [*[(64, 112, 112)] * 3, (64, 56, 56), *stages, (512, 1, 1), (512,), (1000,)]
    assert cifar == [*[(64, 32, 32)] * 4, (128, 16, 16), (256, 8, 8), (512, 4, 4), (512, 1, 1), (512,), (10,)]


def test_a_basic_block_computes_what_torchvision_s_does() -> None:
    network: Any = resnet18(width=2).eval()
    block, x = network.layer2[0], torch.rand(2, 2, 6, 6)
    relu = torch.relu
    inside = block.bn2(block.conv2(relu(block.bn1(block.conv1(x)))))
    assert torch.equal(block(x), relu(inside + block.downsample(x)))
    assert block.conv1.stride == block.downsample[0].stride == (2, 2) and block.conv2.stride == (1, 1)


def test_a_state_with_another_number_of_classes_is_loaded_but_for_the_head() -> None:
    source: Any = resnet18(7, width=2)
    target: Any = resnet18(3, width=2)
    source(torch.rand(2, 3, 32, 32))
    head = target.fc.weight.clone()
    assert not load_pretrained(target, source.state_dict())
    for name, tensor in target.state_dict().items():
        if name.startswith("fc."):
            continue
        assert torch.equal(tensor, source.state_dict()[name]), name
    assert torch.equal(target.fc.weight, head)
    assert int(target.bn1.num_batches_tracked) == 1
    same: Any = resnet18(7, width=2)
    assert load_pretrained(same, source.state_dict())
    assert torch.equal(same.fc.weight, source.fc.weight)
