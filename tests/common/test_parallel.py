"""Work split over threads."""

import os
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterrank import losses
from counterrank.common.errors import CounterrankError
from counterrank.common.flags import await_flag, flags_for, side_by_side
from counterrank.common.parallel import for_queries, run_parallel, split_queries, thread_count

OFFSETS = np.arange(0, 20_001, 10)


def document_sums(first, last, offsets, values, out):
    for q in range(first, last):
        out[q] = values[offsets[q] : offsets[q + 1]].sum()


def sums_of_queries(threads) -> np.ndarray:
    out = np.full(len(OFFSETS) - 1, np.nan)
    for_queries(document_sums, OFFSETS, np.arange(OFFSETS[-1]), out, threads=threads)
    return out


EXPECTED = 10 * OFFSETS[:-1] + 45  # of ten numbers in a row


def test_thread_count(monkeypatch):
    monkeypatch.delenv("COUNTERRANK_THREADS", raising=False)
    assert thread_count(3) == thread_count(np.int64(3)) == 3
    assert thread_count() == len(os.sched_getaffinity(0))
    monkeypatch.setenv("COUNTERRANK_THREADS", "7")
    assert thread_count() == 7
    assert thread_count(2) == 2  # the argument wins


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2", True])
def test_bad_thread_counts(threads):
    with pytest.raises(CounterrankError, match=r"^threads=.*: expected a whole number of at least 1, or None"):
        thread_count(threads)


@pytest.mark.parametrize("given", ["0", "-1", "two", "1.5", "²", " "])
def test_bad_environment(monkeypatch, given):
    monkeypatch.setenv("COUNTERRANK_THREADS", given)
    with pytest.raises(CounterrankError, match=r"^COUNTERRANK_THREADS=.*: expected a whole number of at least 1"):
        thread_count()


def test_an_empty_environment_variable_says_nothing(monkeypatch):
    monkeypatch.setenv("COUNTERRANK_THREADS", "")
    assert thread_count() >= 1


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60), st.integers(1, 40))
def test_ranges_cover_all_queries_once_and_evenly(lengths, parts):
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    ranges = split_queries(offsets, parts)
    assert 1 <= len(ranges) <= parts
    assert all(first < last for first, last in ranges)
    assert [q for first, last in ranges for q in range(first, last)] == list(range(len(lengths)))
    # a cut is at most one query off
    assert max(offsets[last] - offsets[first] for first, last in ranges) <= offsets[-1] / parts + max(lengths)


@pytest.mark.parametrize("threads", [1, 2, 5, 64])
def test_results_are_complete_and_in_order(threads):
    assert run_parallel([lambda i=i: i * i for i in range(50)], threads) == [i * i for i in range(50)]
    assert sums_of_queries(threads).tolist() == EXPECTED.tolist()


def test_no_jobs():
    assert run_parallel([], 1) == run_parallel([], 3) == []


def test_at_most_so_many_at_a_time():
    busy, most, lock = 0, 0, threading.Lock()

    def job():
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        time.sleep(0.005)
        with lock:
            busy -= 1

    run_parallel([job] * 20, 3)
    assert 1 < most <= 3


@pytest.mark.parametrize("threads", [1, 4])
def test_exceptions_come_through_and_do_no_harm(threads):
    def fail(first, last, offsets):
        if last == len(offsets) - 1:
            raise CounterrankError("the last range")

    with pytest.raises(CounterrankError, match="the last range"):
        for_queries(fail, OFFSETS, threads=threads)
    assert sums_of_queries(threads).tolist() == EXPECTED.tolist()


def loss_of_all(threads):
    rng = np.random.default_rng(0)
    n = OFFSETS[-1]
    value, gradient = losses.lambdaloss_truncated(
        rng.normal(size=n), rng.exponential(size=n), OFFSETS, k=3, threads=threads
    )
    return value, gradient.tobytes()


def test_usable_from_several_threads_at_once():
    expected, found = loss_of_all(1), [None] * 8

    def work(place):
        found[place] = [loss_of_all(2 + place % 3) for _ in range(3)]

    workers = [threading.Thread(target=work, args=(place,)) for place in range(len(found))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert found == [[expected] * 3] * len(found)


@pytest.mark.process
@pytest.mark.representative
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork, which this system does not have")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # newer Pythons warn of fork with threads, the point here
def test_usable_after_fork():
    """A child has none of its parent's threads, so a pool that came along would wait for ever."""
    expected = loss_of_all(2)  # the pool has threads now
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if loss_of_all(2) == expected else 2
        finally:
            os._exit(status)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert os.waitstatus_to_exitcode(status) == 0
            break
        time.sleep(0.01)
    else:
        os.kill(child, 9)
        os.waitpid(child, 0)
        pytest.fail("the child hangs")
    assert loss_of_all(2) == expected


def test_threads_that_wait_give_up_when_one_fails():
    flags = flags_for(3)
    gave_up = []

    def work(thread):
        if thread == 2:
            raise KeyError("lost")
        gave_up.append(await_flag(flags, 2, 1))

    with pytest.raises(KeyError, match="lost"):
        side_by_side(work, 3, flags)
    assert gave_up == [False, False]


def test_a_thread_that_cannot_be_started_leaves_none_waiting(monkeypatch):
    flags, real, started, ended = flags_for(3), threading.Thread.start, [], []

    def start(thread):
        if started:
            raise RuntimeError("no more threads")
        started.append(thread)
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(RuntimeError, match="no more threads"):
        side_by_side(lambda thread: ended.append(await_flag(flags, 0, 1)), 3, flags)
    assert ended == [False]


@pytest.mark.parametrize("threads", [1, 3])
def test_ranges_of_at_most_so_many_documents(threads):
    offsets = np.array([0, 3, 4, 104, 106, 108, 110])
    found = for_queries(lambda first, last, offsets: (first, last), offsets, threads=threads, most=5)
    assert [first for first, _ in found] == [0, *(last for _, last in found[:-1])]
    assert found[-1][1] == 6
    assert all(offsets[last - 1] - offsets[first] <= 5 for first, last in found)
    assert len(for_queries(lambda first, last, offsets: None, offsets, threads=1)) == 1
