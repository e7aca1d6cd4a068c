"""The costs of outstanding profiles, and the reasons why they are."""

from dpnotes.experiments.costs import Cost

_H200 = "minutes from 21 cells on an H200, 39 s each, one at a time; hours from the operations of a step"
_OPERATIONS = "from 2.6 ms for an example at width 16 on one core, and the operations of a step"
_IMAGENET = "ResNet-18's weights of ImageNet (resnet18-f37072fd.pth)"
_BERT = "the weights of uncased BERT-base"

# resnet18 starts at random, as Figure 1b does: it waits for a GPU, not for weights.
COSTS = {
    "convnet": {"paper": Cost(why="a GPU", hours=370, minutes=36, gigabytes=8, value=2, basis=_H200)},
    "convnet_lemma": {"paper": Cost(why="a GPU", hours=370, minutes=36, gigabytes=8, basis=_H200)},
    "convnet_clipped": {"paper": Cost(why="a GPU", hours=470, minutes=82, gigabytes=30, value=0.5, basis=_OPERATIONS)},
    "convnet_more": {"paper": Cost(why="a GPU", hours=160, minutes=16, gigabytes=8, value=0.5, basis=_H200)},
    "resnet18": {"paper": Cost(why="a GPU", hours=1900, minutes=140, gigabytes=30, basis=_OPERATIONS)},
    "cifar100": {
        "paper": Cost(
            why="missing weights", hours=4000, minutes=240, gigabytes=40, missing=_IMAGENET, basis=_OPERATIONS
        )
    },
    "cola": {
        "paper": Cost(why="missing weights", hours=2000, minutes=120, gigabytes=40, missing=_BERT, basis=_OPERATIONS)
    },
}
