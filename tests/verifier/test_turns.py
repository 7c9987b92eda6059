from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext

import pytest

from verifier.turns import Turns

PATIENCE_SECONDS = 10.0
SHORT_SECONDS = 0.1


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for a condition that another thread brings about. Raises AssertionError when it does not."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@contextmanager
def take(turns: Turns, kind: str) -> Iterator[None]:
    """Work beside others, or be alone within that."""
    with turns.beside(), turns.alone() if kind == "alone" else nullcontext():
        yield


class Holder:
    """A thread that takes a turn and keeps it until it is told to let go."""

    def __init__(self, turns: Turns, kind: str) -> None:
        self.turns, self.kind = turns, kind
        self.holds, self.told = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        with take(self.turns, self.kind):
            self.holds.set()
            self.told.wait(PATIENCE_SECONDS)

    def let_go(self) -> None:
        self.told.set()
        self.thread.join(PATIENCE_SECONDS)
        assert not self.thread.is_alive()


def test_many_work_beside_each_other() -> None:
    turns = Turns()
    holders = [Holder(turns, "beside") for _ in range(4)]
    assert all(holder.holds.wait(PATIENCE_SECONDS) for holder in holders)
    for holder in holders:
        holder.let_go()
    assert turns.working == 0


def test_one_alone_waits_for_everybody_beside() -> None:
    turns = Turns()
    beside = [Holder(turns, "beside") for _ in range(2)]
    assert all(holder.holds.wait(PATIENCE_SECONDS) for holder in beside)
    alone = Holder(turns, "alone")
    beside[0].let_go()
    assert not alone.holds.wait(SHORT_SECONDS)
    beside[1].let_go()
    assert alone.holds.wait(PATIENCE_SECONDS)
    alone.let_go()


@pytest.mark.parametrize("kind", ["beside", "alone"])
def test_nobody_works_while_one_is_alone(kind: str) -> None:
    turns = Turns()
    first = Holder(turns, "alone")
    assert first.holds.wait(PATIENCE_SECONDS)
    second = Holder(turns, kind)
    assert not second.holds.wait(SHORT_SECONDS)
    first.let_go()
    assert second.holds.wait(PATIENCE_SECONDS)
    second.let_go()


def test_who_waits_to_be_alone_is_not_overtaken_by_newcomers() -> None:
    turns = Turns()
    early = Holder(turns, "beside")
    assert early.holds.wait(PATIENCE_SECONDS)
    alone = Holder(turns, "alone")
    wait_until(lambda: turns.waiting == 1)
    late = Holder(turns, "beside")
    assert not late.holds.wait(SHORT_SECONDS)
    early.let_go()
    assert alone.holds.wait(PATIENCE_SECONDS)
    assert not late.holds.is_set()
    alone.let_go()
    assert late.holds.wait(PATIENCE_SECONDS)
    late.let_go()


def test_everybody_gets_a_turn_and_nobody_shares_one_meant_for_one() -> None:
    turns, broken = Turns(), threading.Event()
    counts = {"beside": 0, "alone": 0}
    guard = threading.Lock()

    def work(kind: str) -> int:
        for _ in range(30):
            with take(turns, kind):
                with guard:
                    counts[kind] += 1
                    if counts["alone"] > 1 or (counts["alone"] and counts["beside"]):
                        broken.set()
                time.sleep(0.0002)
                with guard:
                    counts[kind] -= 1
        return 30

    with ThreadPoolExecutor(6) as pool:
        futures = [pool.submit(work, kind) for kind in ("beside", "alone") * 3]
        assert sum(future.result(PATIENCE_SECONDS) for future in futures) == 180
    assert not broken.is_set()


@pytest.mark.parametrize("kind", ["beside", "alone"])
def test_an_exception_gives_the_turn_back(kind: str) -> None:
    turns = Turns()
    with pytest.raises(RuntimeError, match="broken kernel"), take(turns, kind):
        raise RuntimeError("broken kernel")
    following = Holder(turns, "alone")
    assert following.holds.wait(PATIENCE_SECONDS)
    following.let_go()


def test_who_was_alone_works_beside_the_others_again() -> None:
    turns = Turns()
    with turns.beside():
        with turns.alone():
            assert (turns.working, turns.taken) == (0, True)
        assert (turns.working, turns.taken) == (1, False)
    assert turns.working == 0


def test_all_who_wait_to_be_alone_have_been_before_anybody_goes_on() -> None:
    turns, met, order = Turns(), threading.Barrier(3), []

    def work(name: str) -> None:
        with turns.beside():
            met.wait(PATIENCE_SECONDS)
            with turns.alone():
                order.append("alone")
                time.sleep(SHORT_SECONDS)
            order.append("beside")

    with ThreadPoolExecutor(3) as pool:
        assert len(list(pool.map(work, "abc"))) == 3
    assert order == ["alone"] * 3 + ["beside"] * 3
