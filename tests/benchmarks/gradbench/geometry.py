"""Programs of vision: bundle adjustment, and the tracking of a hand. Both have sparse jacobians."""

from collections.abc import Sequence
from typing import Any

import numpy as np

import micrograd
from micrograd import dot, jacobian, scalar
from tests.benchmarks.gradbench.libraries import Library
from tests.benchmarks.gradbench.problem import Problem, Task, uniform

# ba: where cameras see points, compared with where they were seen. The jacobian is 0 except for two rows for each
# observation, with respect to the camera, the point and the weight, and the derivative of 1 - weight ** 2


def scene(cameras: int, points: int, n: int) -> tuple[Any, ...]:
    """The rotation, center, focal length, principal point and distortion of each camera; points, weights and features;
    the camera and the point of each observation."""
    pose = [uniform(cameras, 3, high=0.3), uniform(cameras, 3, low=-2, seed=1)]
    focal = uniform(cameras, 1, low=400, high=500)
    lens = [uniform(cameras, 2, low=-9, high=9, seed=3), uniform(cameras, 2, high=0.01, seed=4)]
    seen = uniform(n, 2, high=800, seed=7)
    indices = np.arange(n, dtype=np.int64)
    return (
        np.hstack([*pose, focal, *lens]), uniform(points, 3, low=4, high=8, seed=5), uniform(n, seed=6), seen,
        indices % cameras, indices % points,
    )  # fmt: skip


def cross(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]


def rotated(axis: Sequence[Any], x: Sequence[Any]) -> list[Any]:
    """The point turned around an axis by its length (Rodrigues); the axis is not 0."""
    angle = dot(axis, axis).sqrt()
    axis = [a / angle for a in axis]
    cos, sin = angle.cos(), angle.sin()
    along = dot(axis, x) * (1 - cos)
    return [p * cos + q * sin + a * along for p, q, a in zip(x, cross(axis, x), axis, strict=True)]


def errors(camera: list[Any], point: list[Any], weight: Any, seen: list[Any]) -> list[Any]:
    """How far the point is from where it was seen."""
    x, y, z = rotated(camera[:3], [a - b for a, b in zip(point, camera[3:6], strict=True)])
    x, y = x / z, y / z
    square = x * x + y * y
    scale = 1 + camera[9] * square + camera[10] * square * square
    return [weight * (scale * p * camera[6] + c - s) for p, c, s in zip((x, y), camera[7:9], seen, strict=True)]


def our_ba(cameras: int, points: int, n: int) -> Task:
    """The 31 numbers of each observation."""

    def block(camera: list[Any], point: list[Any], weight: Any, seen: list[Any]) -> list[Any]:
        rows = jacobian(errors, (0, 1, 2))(camera, point, weight, seen)
        numbers = [d for by_camera, by_point, by_weight in rows for d in (*by_camera, *by_point, by_weight)]
        return [*numbers, -2 * weight]

    *arrays, camera_of, point_of = scene(cameras, points, n)
    fast = micrograd.compile(block, [x[0].tolist() for x in arrays])
    packed, out = fast.pack(*arrays, in_axes=(camera_of, point_of, 0, 0)), np.empty((n, 31))
    return lambda: fast.map(packed, out=out)


def their_ba(of: Library, cameras: int, points: int, n: int) -> Problem:
    """The same numbers, all observations at once."""

    def errors(camera: Any, point: Any, weight: Any, seen: Any) -> Any:
        axis, x = camera[:3], point - camera[3:6]
        angle = of.np.sqrt((axis * axis).sum())
        axis = axis / angle
        cos, sin = of.np.cos(angle), of.np.sin(angle)
        x = x * cos + of.np.linalg.cross(axis, x) * sin + axis * ((axis * x).sum() * (1 - cos))
        flat = x[:2] / x[2]
        square = (flat * flat).sum()
        return weight * (flat * (1 + camera[9] * square + camera[10] * square**2) * camera[6] + camera[7:9] - seen)

    def block(cameras: Any, points: Any, weights: Any, seen: Any, camera_of: Any, point_of: Any) -> Any:
        by_each = of.vmap(of.jacobian(errors, (0, 1, 2)))(cameras[camera_of], points[point_of], weights, seen)
        rows = of.np.concatenate([by_each[0], by_each[1], by_each[2][..., None]], 2)
        return of.np.concatenate([rows.reshape(len(weights), 30), -2 * weights[:, None]], 1)

    return Problem(block, scene(cameras, points, n))


# ht: points on the skin of a hand, moved by its bones, compared with measured points. The jacobian has 28 columns: 26
# parameters of the pose, and two coordinates of each point in its triangle of the skin

BONES = 22
PARENTS = [-1, 0, 1, 2, 3, 0, 5, 6, 7, 0, 9, 10, 11, 0, 13, 14, 15, 0, 17, 18, 19, 0]


def hand(n: int) -> tuple[Any, ...]:
    """The pose; the transforms of bones, relative to their parents, and back; and for each of n points, its place in a
    triangle, its measured position, the corners, and the weight of each bone for each corner."""
    relative, back = uniform(BONES, 3, 4, low=-1, seed=1), uniform(BONES, 3, 4, low=-1, seed=2)
    weights = uniform(n, 3, BONES, seed=6) * (uniform(n, 3, BONES, seed=7) < 0.2)
    return (
        uniform(26), relative, back, uniform(n, 2, high=0.5, seed=3), uniform(n, 3, seed=4), uniform(n, 3, 3), weights,
    )  # fmt: skip


def angles(theta: Sequence[Any]) -> list[tuple[Any, Any]]:
    """How far each bone is bent and spread. In each finger, the second bone is both; the last two are only bent."""
    found = [(0.0, 0.0)] * BONES
    for finger in range(5):
        a, b, c, d = theta[6 + 4 * finger : 10 + 4 * finger]
        found[4 * finger + 2 : 4 * finger + 5] = [(a, b), (c, 0.0), (d, 0.0)]
    return found


def product(a: list[list[Any]], b: list[list[Any]]) -> list[list[Any]]:
    """One transform after another, each a rotation with a translation as the fourth column."""
    columns = list(zip(*b, strict=True))
    return [[dot(row[:3], column) for column in columns[:3]] + [dot(row[:3], columns[3], row[3])] for row in a]


def turned(bend: Any, spread: Any) -> list[list[Any]]:
    """A rotation by the two angles."""
    (cx, sx), (cz, sz) = [(scalar.cos(x), scalar.sin(x)) for x in (bend, spread)]
    return [[cz, -sz * cx, sz * sx, 0.0], [sz, cz * cx, -cz * sx, 0.0], [0.0, sx, cx, 0.0]]


def our_ht(n: int) -> Task:
    """The three rows of each point."""
    theta, relative, back, *points = hand(n)
    relatives, backs = relative.tolist(), back.tolist()

    def skin(theta: list[Any]) -> list[list[list[Any]]]:
        absolute: list[Any] = []
        for bone, (parent, (bend, spread)) in enumerate(zip(PARENTS, angles(theta), strict=True)):
            own = product(relatives[bone], turned(bend, spread))
            absolute.append(own if parent < 0 else product(absolute[parent], own))
        return [product(a, b) for a, b in zip(absolute, backs, strict=True)]

    def errors(theta: list[Any], u: list[Any], measured: list[Any], corners: Any, weights: Any) -> list[Any]:
        bones, found = skin(theta), []
        for corner, shares in zip(corners, weights, strict=True):
            blend = [[dot(shares, [bone[i][j] for bone in bones]) for j in range(4)] for i in range(3)]
            moved = rotated(theta[:3], [dot(row[:3], corner, row[3]) for row in blend])
            found.append([x + t for x, t in zip(moved, theta[3:6], strict=True)])
        share = [u[0], u[1], 1 - u[0] - u[1]]
        return [m - dot(share, xs) for m, xs in zip(measured, zip(*found, strict=True), strict=True)]

    def rows(*arguments: Any) -> list[list[Any]]:
        return [[*by_theta, *by_u] for by_theta, by_u in jacobian(errors, (0, 1))(*arguments)]

    axes = (None, 0, 0, 0, 0)
    fast = micrograd.compile(rows, [theta.tolist(), *[x[0].tolist() for x in points]], in_axes=axes)
    packed, out = fast.pack(theta, *points), np.empty((n, 3, 28))
    return lambda: fast.map(packed, out=out)


def their_ht(of: Library, n: int) -> Problem:
    """The same, all points at once; one direction serves the coordinates of all."""

    def skin(theta: Any, relative: Any, back: Any) -> Any:
        def affine(matrix: Any) -> Any:
            return of.np.concatenate([matrix, last])

        zero, last, absolute = of.np.zeros_like(theta[0]), of.array([[0.0, 0.0, 0.0, 1.0]]), []
        for bone, (parent, two) in enumerate(zip(PARENTS, angles(theta), strict=True)):
            (cx, sx), (cz, sz) = [(of.np.cos(x + zero), of.np.sin(x + zero)) for x in two]
            entries = [cz, -sz * cx, sz * sx, zero, sz, cz * cx, -cz * sx, zero, zero, sx, cx, zero]
            own = affine(relative[bone]) @ affine(of.np.stack(entries).reshape(3, 4))
            absolute.append(own if parent < 0 else absolute[parent] @ own)
        return of.np.stack(absolute) @ of.vmap(affine)(back)

    def errors(theta: Any, shift: Any, relative: Any, back: Any, us: Any, measured: Any, corners: Any, w: Any) -> Any:
        blend = of.np.einsum("ncb,bij->ncij", w, skin(theta, relative, back)[:, :3])
        x = of.np.einsum("ncij,ncj->nci", blend[..., :3], corners) + blend[..., 3]
        angle = of.np.sqrt((theta[:3] * theta[:3]).sum())
        axis = theta[:3] / angle
        cos, sin = of.np.cos(angle), of.np.sin(angle)
        along = (x @ axis)[..., None] * (1 - cos)
        x = x * cos + of.np.linalg.cross(of.np.broadcast_to(axis, x.shape), x) * sin + axis * along + theta[3:6]
        u = us + shift
        shares = of.np.concatenate([u, 1 - u.sum(1)[:, None]], 1)
        return measured - of.np.einsum("nc,nci->ni", shares, x)

    theta, *rest = hand(n)
    return Problem(lambda *args: of.np.concatenate(of.jacobian(errors, (0, 1))(*args), 2), (theta, np.zeros(2), *rest))
