"""A run releases once from each of its states, however the state was copied, taken apart or put together."""

import copy
import pickle
import threading

import pytest
import torch
from torch import Tensor

from dpnotes.util import checks
from dpnotes.util.lineage import Lineage
from dpnotes.util.states import flatten, map_state, restore, select
from tests.pretend_device import PretendCuda

BOTH = torch.tensor([True, True])


def calls(*numbers: int) -> Tensor:
    return torch.tensor(numbers)


def test_the_newest_state_is_known_by_its_looks_and_an_older_one_by_its_numbers():
    lineage, first = Lineage.of(2), calls(0, 0)
    second, late = lineage.advance(first, BOTH)
    assert late is not None and not late.any() and second.tolist() == [1, 1]
    third, late = lineage.advance(second, torch.tensor([True, False]))
    assert late is None and third.tolist() == [2, 1]
    assert lineage.late(third, BOTH) is None
    for old, expected in ((first, [True, True]), (second, [True, False]), (second.clone(), [True, False])):
        late = lineage.late(old, BOTH)
        assert late is not None and late.tolist() == expected
        assert lineage.advance(old, BOTH)[0] is old, "nothing is written down where a run is late"
    assert lineage.advance(third, BOTH)[0].tolist() == [3, 2]


def test_parts_go_on_by_themselves_and_know_of_one_another():
    whole, start = Lineage.of(3), calls(0, 0, 0)
    part = map_state(lambda t: t[torch.tensor([2, 0])], whole)
    after, late = part.advance(calls(0, 0), BOTH)
    assert late is not None and not late.any() and after.tolist() == [1, 1]
    late = whole.late(start, torch.ones(3, dtype=torch.bool))
    assert late is not None and late.tolist() == [True, False, True]
    together = map_state(lambda w, p: w.index_copy(0, torch.tensor([2, 0]), p), whole, part)
    late = together.late(calls(1, 0, 1), torch.ones(3, dtype=torch.bool))
    assert late is not None and not late.any()
    assert select(torch.tensor([True, False, True]), whole, together).late(start, BOTH[:1].expand(3)) is not None


def test_a_run_that_has_several_rows_released_if_one_of_them_did():
    for released in ([True, False], [False, True]):
        whole = Lineage.of(1)
        twice = map_state(lambda t: t[torch.tensor([0, 0])], whole)
        twice.advance(calls(0, 0), torch.tensor(released))
        late = whole.late(calls(0), BOTH[:1])
        assert late is not None and late.tolist() == [True]


def test_copies_share_the_count_and_a_restored_state_has_its_own():
    lineage, start = Lineage.of(2), calls(0, 0)
    copies = [copy.copy(lineage), copy.deepcopy(lineage), map_state(torch.clone, lineage)]
    assert not any(bool(shared.late(start, BOTH).any()) for shared in copies)  # type: ignore[union-attr]
    lineage.advance(start, BOTH)
    assert all(bool(shared.late(start, BOTH).all()) for shared in copies)  # type: ignore[union-attr]
    restored = restore(lineage, flatten(lineage))
    assert flatten(lineage) == {} and not bool(restored.late(calls(0, 0), BOTH).any())  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="Expected states of one beginning"):
        select(BOTH.logical_not() | torch.tensor([True, False]), lineage, restored)
    with pytest.raises(TypeError, match="Expected a state that is stored by states.flatten"):
        pickle.dumps(lineage)


@pytest.mark.slow
def test_one_of_many_threads_releases():
    for _ in range(50):
        lineage, first, won, ready = Lineage.of(1), calls(0), [], threading.Barrier(8)

        def race(lineage: Lineage = lineage, first: Tensor = first, won: list = won, ready: threading.Barrier = ready):
            ready.wait()
            after, _ = lineage.advance(first, BOTH[:1])
            won.append(after is not first)

        threads = [threading.Thread(target=race) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(won) == 1 and len(won) == 8


def test_on_a_device_nobody_waits_and_the_late_are_named():
    with PretendCuda():
        device = torch.device("cuda")
        lineage, first, both = Lineage.of(2, device), calls(0, 0).to(device), BOTH.to(device)
        second, _ = lineage.advance(first, both)
        third, late = lineage.advance(second, both)
        assert late is None and lineage.late(third, both) is None
        after, late = lineage.advance(first, both)
        assert late is not None
        checks.require(~late, lambda: ValueError("late"))
        with pytest.raises(ValueError, match="late"):
            checks.settle()
        again = lineage.late(third, both)
        assert again is not None and not bool(again.any()), "an older state moves no count back"
