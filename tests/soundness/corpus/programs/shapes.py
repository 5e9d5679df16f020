"""Shapes, dtypes and strides that change from call to call."""

import numpy as np

from corpus.registry import AOT, D, FUNC, JAX, JXI, MISC, REPRO, SUBG, TRC, case, category


category("shapes_dtypes_strides")


@case("shp_fifty_shapes", "fifty different lengths in a row", JXI + "2072")
def _(tt, S):
    g = tt.jit(lambda x: (x * 2).sum() / x.shape[0])
    for i in range(1, 51):
        S.vjp(g, tt.tensor((np.arange(i) * .5).astype("float32"), requires_grad=True))


@case("shp_broadcast_rows_cols", "(n,1) x (1,m) with n or m equal to 1", JAX + "test_rank_promotion_forces_retrace")
def _(tt, S):
    g = tt.jit(lambda a, b: (a + b) * a)
    S.runs(g, ([[1.], [2.]], [[1., 2., 3.]]), ([[1.]], [[1., 2., 3.]]), ([[1.], [2.]], [[5.]]), ([[1.]], [[5.]]), grad=True)


@case("shp_rank_change", "rank 0, 1, 2, 3 through one function", MISC + "test_torch_size")
def _(tt, S):
    g = tt.jit(lambda x: x * 2 + len(x.shape))
    S.runs(g, ([1., 2.],), (D(lambda: tt.tensor(3.)),), ([[1., 2.]],), ([[[1.], [2.]]],), grad=True)


@case("shp_dtype_change", "float32, float64, int64, bool through one function", TRC + "test_trace_casts")
def _(tt, S):
    g = tt.jit(lambda x: (x + x, x * 2, x.sum()))
    for dt in [tt.float32] * S.n + [tt.float64, tt.int64, tt.bool, tt.float32]:
        S.call(g, tt.tensor([1, 0, 1], dtype=dt))


@case("shp_dtype_branch", "branch on x.dtype", FUNC + "test_dtype_compare")
def _(tt, S):
    def f(x):
        return x * 2 if x.dtype == tt.float32 else x * 3
    g = tt.jit(f)
    for dt in [tt.float32] * S.n + [tt.float64, tt.int64, tt.float32]:
        S.call(g, tt.tensor([1, 2], dtype=dt))


@case("shp_mixed_promotion", "promotion f32+f64, int+f32, bool+int, 0-d f64 + 1-d f32", JAX + "test_ad_weak_types")
def _(tt, S):
    g = tt.jit(lambda a, b: (a + b, a * b))
    mk = lambda v, dt: D(lambda: tt.tensor(v, dtype=dt))
    f4, f8, i8, b1 = tt.float32, tt.float64, tt.int64, tt.bool
    S.runs(g, (mk([1, 2], f4), mk([3, 4], f4)), (mk([1, 2], f4), mk([3, 4], f8)), (mk([1, 2], i8), mk([3, 4], f4)),
           (mk([1, 0], b1), mk([3, 4], i8)), (mk([1, 2], f4), mk(3, f8)), (mk([1, 2], i8), mk(3, f4)))


@case("shp_requires_grad_change", "requires_grad of the input toggles", MISC + "test_tensor_dot_grad_no_graph_break")
def _(tt, S):
    g = tt.jit(lambda x, y: x * y)
    for a, b in [(1, 0)] * S.n + [(0, 0), (0, 1), (1, 1), (1, 0)]:
        S.vjp(g, tt.tensor([2.], requires_grad=bool(a)), tt.tensor([3.], requires_grad=bool(b)))


@case("shp_transposed_square", "square matrix and its transpose: same shape, other strides", TRC + "test_trace_size", needs="strided")
def _(tt, S):
    g = tt.jit(lambda a: (a * 2 + a.T, tt.matmul(a, a)))
    a = np.arange(9, dtype="float32").reshape(3, 3)
    for k in [0] * S.n + [1, 0, 1]:
        x = tt.tensor(a, requires_grad=True)
        S.vjp(g, x.T if k else x, wrt=[x])


@case("shp_strided_slice_inputs", "x[::2], x[:, 1], offset views as inputs", REPRO + "test_specialized_stride", needs="strided")
def _(tt, S):
    g = tt.jit(lambda v: v * v + 1)
    base = np.arange(12, dtype="float32").reshape(3, 4)
    views = [lambda x: x[0], lambda x: x[:, 1], lambda x: x[0, ::2], lambda x: x[1:, 2:], lambda x: x[::2, ::3], lambda x: x.T[1]]
    for i in [0] * S.n + [1, 2, 3, 4, 5, 0]:
        x = tt.tensor(base, requires_grad=True)
        S.vjp(g, views[i](x), wrt=[x])


@case("shp_same_storage_other_offset", "two windows of one buffer, same shape, other offset", AOT + "test_input_mutation_aliases_other_input", needs="strided")
def _(tt, S):
    base = tt.tensor(np.arange(10, dtype="float32"))
    g = tt.jit(lambda v: v + 1)
    for i in [0] * S.n + [3, 6, 1, 0]:
        S.call(g, base[i:i + 3])


@case("shp_branch_on_shape", "branch on a dimension", SUBG + "test_dynamic_shapes")
def _(tt, S):
    def f(x):
        if x.shape[0] > 2:
            return x.sum(0)
        return x * x.shape[1]
    S.runs(tt.jit(f), ([[1., 2.], [3., 4.]],), ([[1., 2.], [3., 4.], [5., 6.]],), ([[1., 2., 3.]],), grad=True)


@case("shp_compare_shapes", "x.shape == y.shape as condition", MISC + "test_shape_unpack")
def _(tt, S):
    def f(x, y):
        if x.shape == y.shape:
            return x - y
        return x.sum() - y.sum()
    S.runs(tt.jit(f), ([1., 2.], [3., 4.]), ([1., 2.], [3.]), ([1.], [3.]), grad=True)


@case("shp_matmul_ranks", "matmul vec.vec, mat.vec, vec.mat, mat.mat, batched", JAX + "test_dot_mismatch")
def _(tt, S):
    g = tt.jit(lambda a, b: tt.matmul(a, b))
    A = [[1., 2.], [3., 4.]]
    S.runs(g, ([1., 2.], [3., 4.]), (A, [1., 2.]), ([1., 2.], A), (A, A), ([A, A], A), grad=True)


@case("shp_stack_varying", "stack/cat of a varying number of tensors", FUNC + "test_chunks1")
def _(tt, S):
    def f(xs):
        return tt.stack(xs) * 2, tt.cat(xs)
    g = tt.jit(f)
    for k in [2] * S.n + [3, 1, 2]:
        S.vjp(g, [tt.tensor([float(i), 1.], requires_grad=True) for i in range(k)])


@case("shp_index_by_shape", "index computed from another tensor's shape", FUNC + "test_tensor_size_indexed_by_symint")
def _(tt, S):
    g = tt.jit(lambda x, y: x + y.shape[x.shape[-1] - 1])
    S.runs(g, ([1., 2.], [[1., 2., 3.]]), ([1.], [[1., 2., 3.]]), ([1.], [[1.], [2.]]))


@case("shp_transpose_nd", ".T of vector and matrix; double transpose", REPRO + "test_stk_sdd_is_transposed")
def _(tt, S):
    g = tt.jit(lambda x: (x.T * 2, x.T.T + 1))
    S.runs(g, ([[1., 2.], [3., 4.], [5., 6.]],), ([[1., 2.]],), ([[1.]],), grad=True)


@case("shp_negative_index", "negative indices and steps in slices", FUNC + "test_slice6")
def _(tt, S):
    g = tt.jit(lambda x, i: (x[i], x[:i], x[-2:]))
    S.runs(g, ([1., 2., 3., 4.], -1), ([1., 2., 3., 4.], -3), ([1., 2., 3., 4., 5.], 1), grad=True)


@case("shp_integer_array_index", "gather by an int tensor (repeated indices)", TRC + "test_trace_index", needs="fancy_index")
def _(tt, S):
    g = tt.jit(lambda x, i: x[i] * 2)
    S.runs(g, ([1., 2., 3.], [0, 2]), ([1., 2., 3.], [1, 1, 1]), ([1., 2., 3.], [2, 0, 0, 1]), grad=True)
