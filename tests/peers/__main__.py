"""Runs PyTorch's test files with fusegrad in torch's place; see the package."""

from __future__ import annotations

import argparse
import importlib.metadata
import time
from pathlib import Path

from peers import outcomes, runs, table

# What is run where no file is named: what of its tests is about what fusegrad has. Of FILE:N an N-th is run.
FILES = """test_tensor_creation_ops test_torch test_reductions test_linalg test_nn test_optim
    test_numpy_interop test_masked test_overrides test_serialization test_view_ops test_indexing
    test_shape_ops test_type_promotion test_sort_and_select test_scatter_gather_ops test_autograd
    autograd/test_complex autograd/test_functional autograd/test_logging
    nn/test_convolution nn/test_dropout nn/test_embedding nn/test_init nn/test_lazy_modules
    nn/test_load_state_dict nn/test_module_hooks nn/test_multihead_attention nn/test_packed_sequence
    nn/test_parametrization nn/test_pooling nn/test_pruning
    optim/test_lrscheduler optim/test_optim optim/test_swa_utils
    functorch/test_eager_transforms functorch/test_vmap
    distributions/test_constraints distributions/test_distributions distributions/test_transforms
    distributions/test_utils test_dataloader test_ops:50""".split()

RESULTS = Path(__file__).resolve().parents[2] / "build" / "peers"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m peers", description=__doc__)
    parser.add_argument("checkout", type=Path, help="PyTorch's source, with test/ and torch/testing/")
    parser.add_argument("files", nargs="*", default=FILES, help="nn/test_pooling; test_ops:50 for a sample")
    parser.add_argument("-k", dest="only", default="", metavar="NAME", help="tests whose name has this in it")
    parser.add_argument("--with-torch", action="store_true", help="run PyTorch itself")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the lines of JSON go")
    parser.add_argument("--beside", type=Path, metavar="FOLDER", help="results of a run --with-torch")
    parser.add_argument(
        "--draws", type=int, default=0, metavar="N", help="with PyTorch: N is added to all seeds"
    )
    parser.add_argument(
        "--drawn", type=Path, metavar="FOLDER", help="results of a run --with-torch --draws N"
    )
    parser.add_argument("--failed", type=Path, metavar="FOLDER", help="only tests that failed there")
    parser.add_argument("--no-run", action="store_true", help="only read the results of an earlier run")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table")
    given = parser.parse_args()
    checkout, found = given.checkout.resolve(), []
    for asked in given.files:
        name, _, share = asked.partition(":")
        name, one_in = name.removesuffix(".py"), int(share or 1)
        results = given.results.resolve() / f"{name.replace('/', '.')}.jsonl"
        start = time.perf_counter()
        if not given.no_run:
            these = None
            if given.failed:
                earlier = outcomes.File.read(name, runs.read(given.failed.resolve() / results.name), checkout)
                these = {t.name for t in earlier.tests if t.outcome == "failed"}
            path = checkout / "test" / f"{name}.py"
            runs.run_file(
                path,
                results,
                checkout,
                given.only,
                given.with_torch,
                these=these,
                one_in=one_in,
                draws=given.draws,
            )
        beside = runs.read(given.beside.resolve() / results.name) if given.beside else []
        drawn = runs.read(given.drawn.resolve() / results.name) if given.drawn else []
        file = outcomes.File.read(name, runs.read(results), checkout, beside, drawn)
        file.one_in = one_in
        found.append(file)
        print(file.summary(), f"({time.perf_counter() - start:.0f} s)", flush=True)
    if given.markdown:
        others = [name for name in FILES if name.partition(":")[0] not in {file.name for file in found}]
        version = (checkout / "version.txt").read_text().strip()
        given.markdown.write_text(table.markdown(found, version, importlib.metadata.version("torch"), others))


if __name__ == "__main__":
    main()
