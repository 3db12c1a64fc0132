#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Fits the polynomials of src/cpu/exp2-inl.h and prints them with their errors.

2^r for r in [-1/2, 1/2] is 1 + r * q(r). The constant is fixed at 1 so that 2^0 is exact: equal
scores then give equal probabilities of exactly 1. q is the minimax polynomial of the relative error
of the whole, found by Remez's exchange in 60 digits, then rounded to the type that evaluates it.

    python3 tools/fit_exp2.py          # needs mpmath
"""

import mpmath as mp

mp.mp.dps = 60
HALF = mp.mpf(1) / 2


def target(r):
    """What q approximates: (2^r - 1) / r."""
    return mp.log(2) if r == 0 else mp.expm1(r * mp.log(2)) / r


def weight(r):
    return abs(r) / mp.power(2, r)


def error(q, r):
    return weight(r) * (mp.polyval(q[::-1], r) - target(r))


def extremes(q, count, grid=4000):
    """Points between sign changes where the weighted error is largest, refined by golden section."""
    points = [-HALF + mp.mpf(i) / grid for i in range(grid + 1)]
    values = [error(q, r) for r in points]
    runs, begin = [], 0
    for i in range(1, grid + 2):
        if i == grid + 1 or mp.sign(values[i]) * mp.sign(values[begin]) < 0:
            runs.append((begin, i))
            begin = i
    found = []
    for begin, end in runs:
        best = max(range(begin, end), key=lambda i: abs(values[i]))
        low, high = points[max(best - 1, 0)], points[min(best + 1, grid)]
        for _ in range(60):
            a, b = low + (high - low) * mp.mpf("0.382"), low + (high - low) * mp.mpf("0.618")
            if abs(error(q, a)) < abs(error(q, b)):
                low = a
            else:
                high = b
        found.append((low + high) / 2)
    while len(found) > count:  # keep the largest, drop from the ends so that signs alternate
        found.pop(0 if abs(error(q, found[0])) < abs(error(q, found[-1])) else -1)
    return found


def remez(degree):
    """Coefficients of q, lowest first; the whole polynomial 1 + r q(r) has the given degree."""
    n = degree  # q has n coefficients, the exchange n + 1 points
    points = [-HALF * mp.cos(mp.pi * (i + HALF) / (n + 1)) for i in range(n + 1)]
    points = [r if r != 0 else mp.mpf("1e-3") for r in points]
    for _ in range(30):
        rows = [
            [weight(r) * r**j for j in range(n)] + [(-1) ** i] for i, r in enumerate(points)
        ]
        solution = mp.lu_solve(mp.matrix(rows), mp.matrix([weight(r) * target(r) for r in points]))
        q, level = [solution[j] for j in range(n)], abs(solution[n])
        points = extremes(q, n + 1)
        worst = max(abs(error(q, r)) for r in points)
        if len(points) != n + 1 or worst < level * (1 + mp.mpf("1e-12")):
            break
    return q


def rounded(x, bits):
    """x to `bits` significant bits."""
    mantissa, exponent = mp.frexp(x)
    return mp.ldexp(mp.nint(mp.ldexp(mantissa, bits)), exponent - bits)


def main():
    print("type    degree  relative error  in log2  after rounding the coefficients")
    for name, bits, degree in (("float", 24, 4), ("float", 24, 6), ("double", 53, 11)):
        exact = remez(degree)
        q = [rounded(c, bits) for c in exact]
        grid = [-HALF + mp.mpf(i) / 5000 for i in range(5001)]
        before = max(abs(error(exact, r)) for r in grid)
        after = max(abs(error(q, r)) for r in grid)
        line = f"{name:7} {degree:6}  {mp.nstr(before, 3):>14}  {mp.nstr(mp.log(before, 2), 4):>7}"
        print(f"{line}  {mp.nstr(after, 3)}")
        for i, c in enumerate(q):
            print(f"    c{i + 1:<2} = {float(c).hex()}")


if __name__ == "__main__":
    main()
