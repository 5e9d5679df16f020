"""Short axes: coordinates, quaternions, colours, 3 x 3 matrices and small states along a last dimension."""

from __future__ import annotations

from typing import Any

import numpy as np

from families.declare import FORWARD, programs


def quaternion_product(ops: Any, p: Any, q: Any) -> Any:
    a, b, c, d = ops.unbind(p, -1)
    e, f, g, h = ops.unbind(q, -1)
    parts = [
        a * e - b * f - c * g - d * h,
        a * f + b * e + c * h - d * g,
        a * g - b * h + c * e + d * f,
        a * h + b * g - c * f + d * e,
    ]
    return ops.stack(parts, -1)


@programs("short_axes", "count", "100 float32", "100000 float32,float64")
def quaternions(ops: Any, draw: Any, count: Any) -> Any:
    """Vectors turned by quaternions, by two cross products."""
    cross, sqrt = ops.cross, ops.sqrt

    def loss(q, v):
        q = q / sqrt(ops.sum(q * q, -1, True))
        w, u = q[:, :1], q[:, 1:]
        t = 2 * cross(u, v)
        out = v + w * t + cross(u, t)
        return (out * out * v).sum()

    return loss, [draw.normal(count, 4), draw.normal(count, 3)]


@programs("short_axes", "count", "50000 float64", "3000 float32")
def rigid_bodies(ops: Any, draw: Any, count: Any) -> Any:
    """Tumbling bodies: three steps of Euler's equations and of the quaternion of each."""
    cross, sqrt = ops.cross, ops.sqrt

    def loss(turned, spin, inertia):
        for _ in range(3):
            momentum = inertia * spin
            spin = spin + 0.01 * cross(momentum, spin) / inertia
            rate = ops.cat([0 * spin[:, :1], spin], 1)
            turned = turned + 0.005 * quaternion_product(ops, turned, rate)
            turned = turned / sqrt(ops.sum(turned * turned, 1, True))
        return (turned[:, 1:] * spin).sum()

    return loss, [draw.positive(count, 4), draw.normal(count, 3), draw.positive(count, 3)]


@programs("short_axes", "count", "30000 float64", "100000 float32", "200 float64")
def triangles(ops: Any, draw: Any, count: Any) -> Any:
    """Areas, normals and the quality of triangles given by their corners."""
    cross, sqrt = ops.cross, ops.sqrt

    def loss(corners):
        edges = ops.roll(corners, -1, 1) - corners
        normal = cross(edges[:, 0], edges[:, 1])
        area = sqrt((normal * normal).sum(-1) + 1e-6)
        lengths = (edges * edges).sum(-1)
        return (area / lengths.sum(-1)).mean() + (normal / area[:, None]).sum(-1).mean()

    return loss, [draw.normal(count, 3, 3)]


@programs("short_axes", "shape", "256x256 float32", "64x64 float64")
def colours(ops: Any, draw: Any, shape: Any) -> Any:
    """Linear light to a space of opponent colours and back, with a curve for each channel."""
    stack, clamp = ops.stack, ops.clamp
    to = ((0.4122, 0.5363, 0.0514), (0.2119, 0.6807, 0.1074), (0.0883, 0.2817, 0.6300))

    def loss(image, gains):
        red, green, blue = ops.unbind(image * gains, -1)
        cones = stack([a * red + b * green + c * blue for a, b, c in to], -1)
        roots = clamp(cones, 0.001, 10) ** 0.3333
        light = roots[..., 0] * 0.2 + roots[..., 1] * 0.8
        chroma = ops.cat([roots[..., 1:] - roots[..., :1], roots[..., :1] - roots[..., 2:]], -1)
        return (light.mean() - 0.5) ** 2 + (chroma * chroma).mean()

    return loss, [draw.uniform(*shape, 3), draw.positive(3)]


@programs("short_axes", "count", "20000 float64", "100000 float32")
def strain(ops: Any, draw: Any, count: Any) -> Any:
    """Energy of a neo-Hookean solid of deformation gradients, by 3 x 3 products and a determinant."""
    log = ops.log

    def determinant(f):
        return (
            f[:, 0, 0] * (f[:, 1, 1] * f[:, 2, 2] - f[:, 1, 2] * f[:, 2, 1])
            - f[:, 0, 1] * (f[:, 1, 0] * f[:, 2, 2] - f[:, 1, 2] * f[:, 2, 0])
            + f[:, 0, 2] * (f[:, 1, 0] * f[:, 2, 1] - f[:, 1, 1] * f[:, 2, 0])
        )

    def loss(moved):
        f = moved + ops.eye(3, dtype=moved.dtype)
        right = ops.einsum("nki,nkj->nij", f, f)
        volume = log(determinant(f))
        trace = right[:, 0, 0] + right[:, 1, 1] + right[:, 2, 2]
        return (0.5 * (trace - 3) - volume + 2 * volume * volume).mean()

    return loss, [draw.uniform(count, 3, 3, low=-0.1, high=0.1)]


@programs("short_axes", "count", "30000 float64", "1000 float32")
def small_filter(ops: Any, draw: Any, count: Any) -> Any:
    """A Kalman filter of position and speed for each track, five measurements, by 2 x 2 products."""

    def loss(state, spread, seen):
        step = ops.tensor([[1.0, 0.1], [0.0, 1.0]], dtype=state.dtype)
        total = 0.0
        for time in range(5):
            state = state @ step.T
            spread = step @ spread @ step.T + 0.01 * ops.eye(2, dtype=state.dtype)
            apart, width = seen[:, time] - state[:, 0], spread[:, 0, 0] + 0.1
            gain = spread[:, :, 0] / width[:, None]
            state = state + gain * apart[:, None]
            spread = spread - gain[:, :, None] * spread[:, :1, :]
            total = total + (apart * apart / width + ops.log(width)).mean()
        return total

    return loss, [draw.normal(count, 2), draw.definite(count, 2, 2), draw.normal(count, 5)]


@programs("short_axes", "count", "200000 float32", "500 float64", kind=FORWARD)
def rotations_of_frames(ops: Any, draw: Any, count: Any) -> Any:
    """Frames from two directions each (Gram and Schmidt), stacked to matrices, and points moved into them.

    Forward only.
    """
    cross, sqrt, stack = ops.cross, ops.sqrt, ops.stack

    def moved(first, second, points):
        x = first / sqrt(ops.sum(first * first, -1, True))
        y = second - ops.sum(x * second, -1, True) * x
        y = y / sqrt(ops.sum(y * y, -1, True))
        frames = stack([x, y, cross(x, y)], -2)
        return (frames * points[:, None, :]).sum(-1)

    return moved, [draw.normal(count, 3), draw.normal(count, 3), draw.normal(count, 3)]


@programs("short_axes", "count", "50000 float64", "2000 float32")
def bonded(ops: Any, draw: Any, count: Any) -> Any:
    """Angles and torsions of chains of four atoms, as force fields have them."""
    cross, atan2, sqrt = ops.cross, ops.atan2, ops.sqrt

    def loss(atoms):
        a, b, c = ops.unbind(atoms[:, 1:] - atoms[:, :-1], 1)
        left, right = cross(a, b), cross(b, c)
        length = sqrt((b * b).sum(-1))
        torsion = atan2(length * (a * right).sum(-1), (left * right).sum(-1))
        bend = (a * b).sum(-1) / sqrt((a * a).sum(-1) * (b * b).sum(-1))
        return (1 + ops.cos(3 * torsion)).mean() + (bend * bend).mean()

    return loss, [draw.floats(np.arange(4.0)[:, None] + 0.6 * draw.random.standard_normal((count, 4, 3)))]
