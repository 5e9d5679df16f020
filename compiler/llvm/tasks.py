"""Tasks of kernels, which several threads share, in LLVM IR.

A loop that is worth it is cut into numbered tasks, so that what is computed does not depend on the number
of threads. `fusegrad_share` has them done: by the team of the call (`compiler/runtime/thread_pool.py`), or
here.
"""

from __future__ import annotations

from collections.abc import Sequence

from fusegrad.compiler.llvm.ir_writer import Writer

# Slot 0 of a native call names its team, or nobody. Of what a team has in common, in words of 8 bytes,
# kernels read how many threads it has, and the function that gives it a job.
THREADS, GIVE = 0, 1

# The functions are not optimised, which would take longer than most kernels' compilation.
PLAINLY = "noinline optnone nounwind"


def field(name: str, place: int, type_: str = "i64") -> str:
    """Reads what the team has in common into `%NAME`."""
    return f"""
  %{name}.at = getelementptr i64, ptr %team, i64 {place}
  %{name} = load {type_}, ptr %{name}.at"""


# `fusegrad_sequence(table, first, last, slots)`: calls the functions of a table, each with its block.
SEQUENCE = """
define private void @fusegrad_sequence(ptr %table, i64 %first, i64 %last, ptr %slots) nounwind {
entry:
  br label %next
next:
  %number = phi i64 [ %first, %entry ], [ %number.next, %call ]
  %left = icmp slt i64 %number, %last
  br i1 %left, label %call, label %done
call:
  %place = shl i64 %number, 1
  %function.at = getelementptr ptr, ptr %table, i64 %place
  %function = load ptr, ptr %function.at
  %block.at = getelementptr ptr, ptr %function.at, i64 1
  %block = load ptr, ptr %block.at
  call void %function(ptr %slots, ptr %block)
  %number.next = add i64 %number, 1
  br label %next
done:
  ret void
}"""

# In the modules of kernels, `fusegrad_share(task, tasks, slots, block)`: does the tasks, with the team that
# slot 0 names if there is one and several tasks. In one line, so that modules that are joined have it once.
_SHARE = " ".join(
    f"""
define private void @fusegrad_share(ptr %task, i64 %tasks, ptr %slots, ptr %block) {PLAINLY} {{
entry:
  %team = load ptr, ptr %slots
  %several = icmp sgt i64 %tasks, 1
  %others = icmp ne ptr %team, null
  %spread = and i1 %several, %others
  br i1 %spread, label %job, label %here
job:
  {field("give", GIVE, "ptr")}
  call void %give(ptr %team, ptr %task, i64 %tasks, ptr %slots, ptr %block)
  br label %done
here:
  %first = icmp sgt i64 %tasks, 0
  br i1 %first, label %one, label %done
one:
  %number = phi i64 [ 0, %here ], [ %number.next, %one ]
  call void %task(i64 %number, ptr %slots, ptr %block)
  %number.next = add i64 %number, 1
  %more = icmp slt i64 %number.next, %tasks
  br i1 %more, label %one, label %done
done:
  ret void
}}""".split()
)
_ALONE = "@fusegrad_alone = private constant i64 1"


def task_name(symbol: str) -> str:
    """The function that does one task: `(number, slots, block)`."""
    return f"{symbol}.task"


def run_tasks(w: Writer, symbol: str, count: str) -> None:
    """Call `SYMBOL.task(i, slots, block)` for i below `count`."""
    w.declared.add(_SHARE)
    w.line(f"call void @fusegrad_share(ptr @{task_name(symbol)}, i64 {count}, ptr %slots, ptr %block)")


def threads_of_team(w: Writer) -> str:
    """How many threads share tasks here."""
    w.declared.add(_ALONE)
    team, alone, place = w.name("p"), w.name(), w.name("p")
    w.line(f"{team} = load ptr, ptr %slots")
    w.line(f"{alone} = icmp eq ptr {team}, null")
    known = w.offset(team, str(THREADS), "i64")
    w.line(f"{place} = select i1 {alone}, ptr @fusegrad_alone, ptr {known}")
    return w.load_index(place, 0)


def function(signature: str, w: Writer, attributes: str = "nounwind") -> str:
    """The text of a function from what was written."""
    return "\n".join([f"define {signature} {attributes} {{", "entry:", *w.entry, *w.lines, "  ret void", "}"])


def module(declared: set[str], functions: Sequence[str]) -> str:
    """The text of a module: its declarations, then its functions."""
    return "\n\n".join(["\n".join(sorted(declared)), *functions])
