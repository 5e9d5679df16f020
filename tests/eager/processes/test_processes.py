"""Tensors that several processes have, and functions that run in several."""

from __future__ import annotations

import gc
import glob
import multiprocessing
import os
import pickle
import warnings

import pytest
from spawned import add_one, fail, put, train

import fusegrad as fg
from fusegrad import multiprocessing as mp

METHODS = ["fork", "spawn"]


def started(method, target, *args):
    process = multiprocessing.get_context(method).Process(target=target, args=args)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.12's about threads and fork
        process.start()
    process.join(60)
    assert process.exitcode == 0


@pytest.mark.parametrize("method", METHODS)
def test_processes_write_where_this_one_reads(method):
    tensor = fg.zeros(3).share_memory_()
    for index in range(3):
        started(method, add_one, index, tensor)
    assert tensor.tolist() == [1.0, 1.0, 1.0] and tensor.is_shared()
    alone = fg.zeros(1)
    started(method, add_one, 0, alone)
    assert alone.tolist() == [0.0] and not alone.is_shared()


@pytest.mark.parametrize("method", METHODS)
def test_a_model_is_trained_by_several(method):
    model = fg.nn.Sequential(fg.nn.Linear(2, 1), fg.nn.BatchNorm1d(1)).share_memory()
    assert all(t.is_shared() for t in (*model.parameters(), *model.buffers()))
    before = [p.tolist() for p in model.parameters()]
    started(method, train, 0, model)
    assert [p.tolist() for p in model.parameters()] != before
    assert model[1].num_batches_tracked.item() == 1


@pytest.mark.parametrize("method", METHODS)
def test_a_queue_gives_the_same_memory(method):
    queue = multiprocessing.get_context(method).SimpleQueue()
    tensor = fg.nn.Parameter(fg.zeros(2, 2)).share_memory_()
    started(method, put, queue, tensor)
    received = queue.get()
    assert type(received) is fg.nn.Parameter and received.requires_grad
    with fg.no_grad():
        received.add_(1)
    assert tensor.sum() == 4
    queue.put(fg.ones(2))
    copied = queue.get()
    assert copied.tolist() == [1.0, 1.0] and not copied.is_shared()


def test_what_is_shared_is_a_tensor_like_any():
    tensor = fg.arange(6.0).requires_grad_().share_memory_()
    assert tensor.share_memory_() is tensor
    (tensor.reshape(2, 3).sum(0) * 2).sum().backward()
    assert tensor.grad.tolist() == [2.0] * 6
    assert tensor[2:].is_shared() and not tensor.detach().clone().is_shared()
    again = pickle.loads(pickle.dumps(tensor))
    assert again.tolist() == tensor.tolist() and not again.is_shared()
    assert fg.zeros(0).share_memory_().shape == (0,)
    step = fg.jit(lambda x: (x * 2).sum())
    assert [step(tensor).item() for _ in range(3)] == [30.0] * 3


def test_views_are_not_left_behind():
    tensor = fg.zeros(4)
    view = tensor[:2]
    for one in (tensor, view):
        with pytest.raises(RuntimeError, match="has views or is one"):
            one.share_memory_()


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="no folder for memory")
def test_no_file_is_left():
    before = set(glob.glob("/dev/shm/fusegrad-*"))
    tensor = fg.zeros(100).share_memory_()
    assert len(set(glob.glob("/dev/shm/fusegrad-*")) - before) == 1
    del tensor
    gc.collect()
    assert set(glob.glob("/dev/shm/fusegrad-*")) <= before


def test_spawn():
    tensor = fg.zeros(2).share_memory_()
    assert mp.spawn(add_one, args=(tensor,), nprocs=2) is None
    assert tensor.tolist() == [1.0, 1.0]
    context = mp.start_processes(add_one, args=(tensor,), nprocs=2, join=False, start_method="fork")
    while not context.join(timeout=60):
        pass
    assert tensor.tolist() == [2.0, 2.0] and len(context.pids()) == 2 and context.join()


def test_errors_of_processes():
    with pytest.raises(
        mp.ProcessRaisedException, match=r"terminated with the following error:(.|\n)*enough"
    ) as caught:
        mp.start_processes(fail, args=("raise",), nprocs=1, start_method="fork")
    assert caught.value.error_index == 0
    with pytest.raises(mp.ProcessExitedException, match="process 0 terminated with exit code 3"):
        mp.start_processes(fail, args=("exit",), nprocs=1, start_method="fork")
    with pytest.raises(mp.ProcessExitedException, match="terminated with signal SIGKILL") as killed:
        mp.start_processes(fail, args=("kill",), nprocs=1, start_method="fork")
    assert killed.value.signal_name == "SIGKILL"
    assert not multiprocessing.active_children()


def test_it_has_the_names_of_the_standard_library():
    assert mp.Process is multiprocessing.Process and mp.cpu_count() == multiprocessing.cpu_count()
    assert mp.get_sharing_strategy() in mp.get_all_sharing_strategies()
    mp.set_sharing_strategy("file_system")
    with pytest.raises(ValueError, match="way to share"):
        mp.set_sharing_strategy("wishes")
