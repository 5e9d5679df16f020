"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.eager.profiler import (
    ProfilerAction as ProfilerAction,
    ProfilerActivity as ProfilerActivity,
    profile as profile,
    record_function as record_function,
    schedule as schedule,
    supported_activities as supported_activities,
    tensorboard_trace_handler as tensorboard_trace_handler,
)
