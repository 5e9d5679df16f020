"""What a function sets of the engine, and leaves set, its replays leave set; what it asks for is asked anew.

SETTINGS has all that can be set, and how it is asked for; a new name for setting something must be put there.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from helpers.oracle import torch

import fusegrad as fg
from fusegrad.eager.autograd import node
from fusegrad.eager.core import large, settings, state
from fusegrad.eager.utils import checkpoint
from fusegrad.tracer.capture import api


class Setting(NamedTuple):
    """Something that is set for the process, or a thread. Each takes the package: ours, or PyTorch."""

    set: Callable[[Any], Any]
    reset: Callable[[Any], Any]
    ask: Callable[[Any], Any]


def validates(t: Any) -> bool:
    """Whether distributions look at their parameters."""
    try:
        t.distributions.Normal(0.0, -1.0)
    except ValueError:
        return True
    return False


# By the name under which it is set.
SETTINGS = {
    "set_grad_enabled": Setting(
        lambda t: t.set_grad_enabled(False), lambda t: t.set_grad_enabled(True), lambda t: t.is_grad_enabled()
    ),
    "set_default_dtype": Setting(
        lambda t: t.set_default_dtype(t.float64),
        lambda t: t.set_default_dtype(t.float32),
        lambda t: t.get_default_dtype().itemsize,
    ),
    "set_default_tensor_type": Setting(
        lambda t: t.set_default_tensor_type("torch.DoubleTensor"),
        lambda t: t.set_default_dtype(t.float32),
        lambda t: t.ones(1).dtype.itemsize,
    ),
    "set_detect_anomaly": Setting(
        lambda t: t.autograd.set_detect_anomaly(True),
        lambda t: t.autograd.set_detect_anomaly(False),
        lambda t: t.is_anomaly_enabled(),
    ),
    "set_detect_anomaly, check_nan": Setting(
        lambda t: t.autograd.set_detect_anomaly(False, check_nan=False),
        lambda t: t.autograd.set_detect_anomaly(False, check_nan=True),
        lambda t: t.is_anomaly_check_nan_enabled(),
    ),
    "use_deterministic_algorithms": Setting(
        lambda t: t.use_deterministic_algorithms(True),
        lambda t: t.use_deterministic_algorithms(False),
        lambda t: t.are_deterministic_algorithms_enabled(),
    ),
    "use_deterministic_algorithms, warn_only": Setting(
        lambda t: t.use_deterministic_algorithms(True, warn_only=True),
        lambda t: t.use_deterministic_algorithms(False),
        lambda t: t.is_deterministic_algorithms_warn_only_enabled(),
    ),
    "set_deterministic_debug_mode": Setting(
        lambda t: t.set_deterministic_debug_mode("warn"),
        lambda t: t.set_deterministic_debug_mode(0),
        lambda t: t.get_deterministic_debug_mode(),
    ),
    "set_warn_always": Setting(
        lambda t: t.set_warn_always(True),
        lambda t: t.set_warn_always(False),
        lambda t: t.is_warn_always_enabled(),
    ),
    "set_printoptions": Setting(
        lambda t: t.set_printoptions(precision=2),
        lambda t: t.set_printoptions(profile="default"),
        lambda t: str(t.tensor(1.23456)),
    ),
    "set_float32_matmul_precision": Setting(
        lambda t: t.set_float32_matmul_precision("high"),
        lambda t: t.set_float32_matmul_precision("highest"),
        lambda t: t.get_float32_matmul_precision(),
    ),
    "set_num_threads": Setting(
        lambda t: t.set_num_threads(1), lambda t: t.set_num_threads(2), lambda t: t.get_num_threads()
    ),
    "manual_seed": Setting(
        lambda t: t.manual_seed(7), lambda t: t.manual_seed(3), lambda t: t.initial_seed()
    ),
    "manual_seed, draws": Setting(
        lambda t: t.manual_seed(7), lambda t: t.manual_seed(3), lambda t: t.get_rng_state().tolist()
    ),
    "set_rng_state": Setting(
        lambda t: t.set_rng_state(STATES[t.__name__]),
        lambda t: t.manual_seed(3),
        lambda t: t.get_rng_state().tolist(),
    ),
    "seed": Setting(lambda t: t.seed(), lambda t: t.manual_seed(3), lambda t: t.initial_seed() == 3),
    "enable_flash_sdp": Setting(
        lambda t: t.backends.cuda.enable_flash_sdp(False),
        lambda t: t.backends.cuda.enable_flash_sdp(True),
        lambda t: t.backends.cuda.flash_sdp_enabled(),
    ),
    "enable_math_sdp": Setting(
        lambda t: t.backends.cuda.enable_math_sdp(False),
        lambda t: t.backends.cuda.enable_math_sdp(True),
        lambda t: t.backends.cuda.math_sdp_enabled(),
    ),
    "enable_mem_efficient_sdp": Setting(
        lambda t: t.backends.cuda.enable_mem_efficient_sdp(False),
        lambda t: t.backends.cuda.enable_mem_efficient_sdp(True),
        lambda t: t.backends.cuda.mem_efficient_sdp_enabled(),
    ),
    "allow_tf32": Setting(
        lambda t: setattr(t.backends.cuda.matmul, "allow_tf32", True),
        lambda t: setattr(t.backends.cuda.matmul, "allow_tf32", False),
        lambda t: t.backends.cuda.matmul.allow_tf32,
    ),
    "set_default_validate_args": Setting(
        lambda t: t.distributions.Distribution.set_default_validate_args(False),
        lambda t: t.distributions.Distribution.set_default_validate_args(True),
        validates,
    ),
}
# Ours alone, and asked for where it is kept.
SETTINGS_OF_OURS = {
    "set_eager_kernels": Setting(
        lambda t: t.set_eager_kernels(False),
        lambda t: t.set_eager_kernels(True),
        lambda t: large.answers.enabled,
    ),
    "set_compile_budget": Setting(
        lambda t: t.set_compile_budget(60),
        lambda t: t.set_compile_budget(None),
        lambda t: t.get_compile_budget(),
    ),
    "set_checkpoint_debug_enabled": Setting(
        lambda t: t.utils.checkpoint.set_checkpoint_debug_enabled(True).__enter__(),
        lambda t: checkpoint._setting.update(debug=None),
        lambda t: checkpoint._setting["debug"],
    ),
    "set_checkpoint_early_stop": Setting(
        lambda t: t.utils.checkpoint.set_checkpoint_early_stop(False).__enter__(),
        lambda t: checkpoint._setting.update(early_stop=None),
        lambda t: checkpoint._setting["early_stop"],
    ),
}
# What sets nothing here: what there is one of, devices that are not there, and what is of the object that is
# given, or gives it back. `set_rng_state_all` takes the states of no devices.
NOTHING = """
    set_default_device set_flush_denormal set_num_interop_threads enable_cudnn_sdp set_device set_device_index
    set_rng_state_all manual_seed_all seed_all reset_max_memory_allocated reset_peak_memory_stats
    set_per_process_memory_fraction set_sharing_strategy set_start_method set_executable
    set_forkserver_preload register_hook register_post_accumulate_grad_hook register_parametrization
    register_multi_grad_hook
"""
# What is for all modules, classes or ops; in tests of hooks, of distributions, of containers and of own ops.
ELSEWHERE = """
    register_module_backward_hook register_module_buffer_registration_hook register_module_forward_hook
    register_module_forward_pre_hook register_module_full_backward_hook register_kl
    register_module_full_backward_pre_hook register_module_module_registration_hook
    register_module_parameter_registration_hook register_pytree_node register_dataclass
    register_autograd register_fake register_kernel register_vmap
    register_optimizer_step_pre_hook register_optimizer_step_post_hook
"""
STATES = {"fusegrad": fg.Generator().manual_seed(5).get_state()}
if torch:
    STATES["torch"] = torch.Generator().manual_seed(5).get_state()


# Context managers of the engine, which are entered by hand.
MODES: dict[str, Callable[[Any], Any]] = {
    "no_grad": lambda t: t.no_grad(),
    "enable_grad": lambda t: t.enable_grad(),
    "inference_mode": lambda t: t.inference_mode(),
    "set_grad_enabled": lambda t: t.set_grad_enabled(False),
    "saved_tensors_hooks": lambda t: t.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x),
    "autocast": lambda t: t.autocast("cpu"),
    "detect_anomaly": lambda t: t.autograd.detect_anomaly(),
}


PUBLIC = re.compile(r"fusegrad\.(?!(eager|tracer|compiler|torch)\b)")


def public_names(package: types.ModuleType, seen: set[int]) -> Iterator[str]:
    """The names of our modules that users import, but for those of the rooms behind them."""
    seen.add(id(package))
    for name in {*dir(package), *getattr(package, "__all__", ())}:
        value = getattr(package, name, None)
        if not isinstance(value, types.ModuleType):
            yield name
        elif id(value) not in seen and PUBLIC.match(value.__name__):
            yield from public_names(value, seen)


def left(jit: Callable[[Any], Any], t: Any, setting: Setting) -> list[Any]:
    """What is set after calls of a function that sets it."""

    def function(x: Any) -> Any:
        setting.set(t)
        return x * 2

    function, found = jit(function), []
    try:
        for _ in range(4):
            setting.reset(t)
            function(t.ones(1))
            found.append(setting.ask(t))
    finally:
        setting.reset(t)
    return found


def asked(jit: Callable[[Any], Any], t: Any, setting: Setting) -> list[Any]:
    """What a function finds that asks, while it is set and reset between its calls."""
    setting.reset(t)
    usual = setting.ask(t)
    function = jit(lambda x: x * (2.0 if setting.ask(t) == usual else 3.0))
    found = []
    try:
        for change in (setting.reset, setting.set, setting.reset):
            change(t)
            found += [float(function(t.ones(1, dtype=t.float32))) for _ in range(3)]
    finally:
        setting.reset(t)
    return found


def as_it_is(function: Any) -> Any:
    return function


@pytest.mark.parametrize("name", [*SETTINGS, *SETTINGS_OF_OURS])
@pytest.mark.parametrize("calls", [left, asked])
def test_what_is_set_and_asked_for(name: str, calls: Callable[..., list[Any]]) -> None:
    setting = (SETTINGS | SETTINGS_OF_OURS)[name]
    found = calls(fg.jit, fg, setting)
    assert found == calls(as_it_is, fg, setting)
    if torch and name in SETTINGS and not re.search("draws|rng_state|num_threads|printoptions", name):
        assert found == calls(as_it_is, torch, setting)


def test_all_that_can_be_set_is_in_the_tables() -> None:
    known = {re.split(",", name)[0] for name in (*SETTINGS, *SETTINGS_OF_OURS)}
    known |= {*NOTHING.split(), *ELSEWHERE.split(), *MODES}
    sets = re.compile(r"(set|use|enable|disable|reset|register)_|manual_seed|seed(_all)?$")
    names = {name for name in public_names(fg, set()) if sets.match(name)}
    assert names - known == set()
    assert {"set_warn_always", "enable_math_sdp", "register_kl"} <= names


def entered(jit: Callable[[Any], Any], name: str, outside: bool, leaves: bool) -> list[Any]:
    """What is set after calls of a function that enters a mode by hand."""
    before, make = state.modes(), MODES[name]
    held = make(fg) if outside else None
    fg.set_grad_enabled(True)

    def function(x: Any) -> Any:
        mode = make(fg) if held is None else held
        mode.__enter__()
        y = x * 2
        if leaves:
            mode.__exit__(None, None, None)
        return y

    function, found = jit(function), []
    interpreter, watchers = state.state.interpreter, [*node.watchers]
    for _ in range(4):
        result = function(fg.ones(1, requires_grad=True))
        now = state.modes()
        found.append([*(a is b for a, b in zip(now, before, strict=True)), result.requires_grad])
        if held is not None and not leaves:
            held.__exit__(None, None, None)
            found.append([*(a is b for a, b in zip(state.modes(), before, strict=True))])
        for field, value in zip(state._MODES, before, strict=True):
            setattr(state.state, field, value)
        state.state.interpreter, node.watchers[:] = interpreter, watchers
        fg.autograd.set_detect_anomaly(False)
    return found


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("leaves", [False, True])
@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("name", MODES)
def test_modes_that_are_entered_by_hand(name: str, outside: bool, leaves: bool) -> None:
    assert entered(fg.jit, name, outside, leaves) == entered(as_it_is, name, outside, leaves)


def test_a_mode_that_is_left_as_it_was_replays() -> None:
    @fg.jit(require="replay")
    def function(x: Any) -> Any:
        before = fg.is_grad_enabled()
        fg.set_grad_enabled(False)
        y = x * 2
        fg.set_grad_enabled(before)
        return y + x

    for _ in range(4):
        assert function(fg.ones(1)).tolist() == [3.0]


def test_a_mode_and_a_setting_that_nobody_tells_of_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "modes", tuple)
    monkeypatch.setattr(settings, "tell", lambda effect: None)
    assert entered(fg.jit, "no_grad", False, False) != entered(as_it_is, "no_grad", False, False)
    setting = SETTINGS["set_warn_always"]
    for calls in (left, asked):
        assert calls(fg.jit, fg, setting) != calls(as_it_is, fg, setting)
