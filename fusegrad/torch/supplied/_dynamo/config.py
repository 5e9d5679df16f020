"""`torch._dynamo.config`: settings that may be read and set, and that nothing heeds."""

__all__ = """suppress_errors verbose cache_size_limit recompile_limit accumulated_cache_size_limit
accumulated_recompile_limit automatic_dynamic_shapes assume_static_by_default capture_scalar_outputs
capture_dynamic_output_shape_ops dynamic_shapes optimize_ddp inline_inbuilt_nn_modules
allow_unspec_int_on_nn_module""".split()
suppress_errors = False
verbose = False
cache_size_limit = recompile_limit = 8
accumulated_cache_size_limit = accumulated_recompile_limit = 256
automatic_dynamic_shapes = True
assume_static_by_default = True
capture_scalar_outputs = False
capture_dynamic_output_shape_ops = False
dynamic_shapes = True
optimize_ddp = True
inline_inbuilt_nn_modules = True
allow_unspec_int_on_nn_module = False
