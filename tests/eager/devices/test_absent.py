"""Modules of devices that are not there: they say no and none, and refuse, where PyTorch's CPU build does."""

from __future__ import annotations

import warnings

import pytest
from oracle import torch

import fusegrad as fg

# Answers, which are PyTorch's.
ANSWERS = """
cuda.is_available() cuda.device_count() cuda.is_initialized() cuda.manual_seed(1) cuda.manual_seed_all(1)
cuda.seed() cuda.seed_all() cuda.empty_cache() cuda.memory_allocated() cuda.max_memory_allocated()
cuda.memory_reserved() cuda.max_memory_reserved() cuda.is_bf16_supported() cuda.get_arch_list()
cuda.get_rng_state_all() cuda.set_rng_state_all([])
mps.is_available() mps.device_count() mps.manual_seed(1)
xpu.is_available() xpu.device_count() xpu.empty_cache() xpu.manual_seed(1) xpu.manual_seed_all(1)
accelerator.is_available() accelerator.device_count() accelerator.current_accelerator()
cpu.is_available() cpu.device_count() cpu.synchronize() cpu.current_device()
backends.cudnn.is_available() backends.cudnn.version() backends.cudnn.enabled backends.cudnn.benchmark
backends.cudnn.deterministic backends.cudnn.allow_tf32
backends.cuda.is_built() backends.cuda.matmul.allow_tf32 backends.cuda.flash_sdp_enabled()
backends.cuda.math_sdp_enabled() backends.cuda.mem_efficient_sdp_enabled()
backends.mps.is_available() backends.mps.is_built()
get_float32_matmul_precision() is_autocast_enabled()
""".split()
REFUSED = """
cuda.synchronize() cuda.current_device() cuda.get_device_name() cuda.get_device_name(0) cuda.set_device(0)
cuda.Event() cuda.Event(enable_timing=True) cuda.Stream() cuda.init() cuda.current_stream()
cuda.default_stream() cuda.get_device_capability() cuda.get_device_properties(0) cuda.ipc_collect()
cuda.get_rng_state() cuda.initial_seed() cuda.mem_get_info() cuda.memory_summary() cuda.FloatTensor(2)
cuda.reset_peak_memory_stats() cuda.reset_max_memory_allocated() cuda.can_device_access_peer(0,1)
mps.synchronize() mps.empty_cache() mps.current_allocated_memory() mps.driver_allocated_memory()
xpu.synchronize() accelerator.synchronize() accelerator.current_device_index() accelerator.current_stream()
accelerator.set_device_index(0) accelerator.empty_cache() accelerator.memory_allocated()
""".split()


def said(module, text):
    return eval(f"module.{text}", {"module": module})


@pytest.mark.parametrize("text", ANSWERS)
def test_answers_are_pytorchs(text):
    if torch.cuda.is_available() or torch.accelerator.is_available():
        pytest.skip("this machine has such a device")
    assert said(fg, text) == said(torch, text)


@pytest.mark.parametrize("text", REFUSED)
def test_what_needs_a_device_is_refused(text):
    with pytest.raises(RuntimeError, match="no other device than the CPU"):
        said(fg, text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception):  # noqa: B017  # PyTorch's are of many kinds
            said(torch, text)


def test_settings_are_kept():
    from fusegrad import backends

    backends.cudnn.benchmark = True
    assert fg.backends.cudnn.benchmark
    backends.cudnn.benchmark = False
    backends.cuda.enable_flash_sdp(False)
    assert not backends.cuda.flash_sdp_enabled()
    backends.cuda.enable_flash_sdp(True)
    with backends.cudnn.flags(enabled=False):
        assert fg.ones(1).item() == 1
    fg.set_float32_matmul_precision("high")
    assert fg.get_float32_matmul_precision() == "high"
    with pytest.warns(UserWarning, match="not one of"):
        fg.set_float32_matmul_precision("x")
    fg.set_float32_matmul_precision("highest")
    assert fg.set_flush_denormal(True) is False


def test_nothing_is_a_tensor_of_the_device():
    assert not isinstance(fg.ones(1), fg.cuda.FloatTensor)
    assert issubclass(fg.cuda.OutOfMemoryError, RuntimeError)
    assert fg.OutOfMemoryError is fg.cuda.OutOfMemoryError
    with fg.cuda.stream(None):
        pass


def test_the_default_tensor_type_sets_the_default_dtype():
    fg.set_default_tensor_type(fg.DoubleTensor)
    try:
        assert fg.zeros(1).dtype == fg.float64
        fg.set_default_tensor_type("torch.FloatTensor")
        assert fg.zeros(1).dtype == fg.float32
    finally:
        fg.set_default_dtype(fg.float32)
