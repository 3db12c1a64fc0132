#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws out/demo.png from what `fa4 demo` wrote: attention maps, errors, speed."""

import argparse
import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import PowerNorm
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path as MplPath

INK, FAINT, PAPER, PANEL = "#e8e6f0", "#8d89a6", "#12111c", "#1a1828"
ACCENT = "#ffb454"
DTYPE_COLORS = {"float32": "#5ec8f2", "bfloat16": "#f2708a", "float16": "#9fdc7c"}
MAP = dict(cmap="magma", norm=PowerNorm(0.5, 0, 1), interpolation="nearest")
WORTH_NAMING = 0.2  # A key with this probability gets an arc.


def is_special(token):
    return token.startswith("[") and len(token) > 1


def strongest_keys(tokens, probabilities):
    """(query, key, probability): the word that each token looks at most, itself excepted."""
    words = np.array([not is_special(t) for t in tokens])
    for query in range(len(tokens)):
        row = np.where(words, probabilities[query], 0)
        row[query] = 0
        key = int(row.argmax())
        if words[query] and row[key] >= WORTH_NAMING:
            yield query, key, row[key]


def draw_arc(ax, start, end, height, p):
    """An arc with its arrow head at `end`; the likelier, the thicker and brighter."""
    color = plt.get_cmap("magma")(0.42 + 0.55 * p)
    foot, control = 0.03, height * 4 / 3  # A cubic's top lies at 3/4 of its control points.
    path = MplPath([(start, foot), (start, control), (end, control), (end, foot)],
                   [MplPath.MOVETO, MplPath.CURVE4, MplPath.CURVE4, MplPath.CURVE4])
    ax.add_patch(PathPatch(path, fill=False, ec=color, lw=0.8 + 4 * p, alpha=0.5 + 0.5 * p,
                           zorder=2 + p, capstyle="round"))
    ax.plot([end], [foot], marker="v", color=color, ms=4 + 4 * p, zorder=3 + p)


def draw_sentence(ax, tokens, probabilities, title):
    """The sentence in one line, an arc from each token to the word that it looks at most."""
    starts = np.cumsum([0] + [len(t) + 1 for t in tokens])
    middle = [starts[i] + len(t) / 2 for i, t in enumerate(tokens)]
    ax.set_xlim(0, starts[-1] - 1)
    ax.set_ylim(-0.16, 1.02)
    ax.axis("off")
    arcs = list(strongest_keys(tokens, probabilities))
    widest = max((abs(middle[q] - middle[k]) for q, k, _ in arcs), default=1)
    for query, key, p in arcs:
        height = (abs(middle[query] - middle[key]) / widest) ** 0.55
        draw_arc(ax, middle[query], middle[key], height, p)
    named = {key for _, key, _ in arcs}
    for i, token in enumerate(tokens):
        color = FAINT if is_special(token) else ACCENT if i in named else INK
        ax.text(middle[i], -0.04, token, ha="center", va="top", family="monospace",
                fontsize=8.6, color=color)
    ax.set_title(title, loc="left", fontsize=11, color=INK, pad=6)


def draw_head(ax, tokens, probabilities, title):
    ax.imshow(probabilities, **MAP)
    ticks = range(len(tokens))
    ax.set_xticks(ticks, tokens, rotation=90, fontsize=7, family="monospace", color=INK)
    ax.set_yticks(ticks, tokens, fontsize=7, family="monospace", color=INK)
    ax.tick_params(length=0, pad=2)
    for query, key, _ in strongest_keys(tokens, probabilities):
        ax.add_patch(Rectangle((key - 0.5, query - 0.5), 1, 1, fill=False, ec=ACCENT, lw=0.7))
    for spine in ax.spines.values():
        spine.set_visible(False)
    ax.set_title(title, loc="left", fontsize=11, color=INK, pad=6)
    ax.set_ylabel("a token looks ...", fontsize=8, color=FAINT)
    ax.set_xlabel("... at a token", fontsize=8, color=FAINT)


def draw_all_heads(ax, maps, drawn):
    """All maps in one image (72 axes would take a second to draw)."""
    layers, heads, size, _ = maps.shape
    gap = 2
    step = size + gap
    image = np.full((layers * step - gap, heads * step - gap), np.nan)
    for layer in range(layers):
        for head in range(heads):
            y, x = layer * step, head * step
            image[y : y + size, x : x + size] = maps[layer, head]
    ax.imshow(image, aspect="auto", **MAP)
    y, x = drawn[0] * step, drawn[1] * step
    ax.add_patch(Rectangle((x - 1.5, y - 1.5), size + 2, size + 2, fill=False, ec=ACCENT, lw=2,
                           clip_on=False))
    ax.set_facecolor(PAPER)
    middle = (size - 1) / 2
    ax.set_xticks([middle + step * i for i in range(heads)],
                  ["head 0", *map(str, range(1, heads))], fontsize=8, color=FAINT)
    ax.set_yticks([middle + step * i for i in range(layers)],
                  [f"layer {i}" for i in range(layers)], fontsize=8, color=FAINT,
                  rotation=90, va="center")
    ax.tick_params(length=0, pad=2)
    for spine in ax.spines.values():
        spine.set_visible(False)
    ax.set_title(f"All {layers * heads} heads, the same sentence", loc="left", fontsize=11,
                 color=INK, pad=6)


def style_panel(ax, title):
    ax.set_facecolor(PANEL)
    for spine in ax.spines.values():
        spine.set_visible(False)
    ax.tick_params(colors=FAINT, labelsize=8, length=0)
    ax.set_title(title, loc="left", fontsize=11, color=INK, pad=6)


def results_of(run):
    """Yields (name, error) of a run's results."""
    yield "out", run["forward"]["out_to_float64"]
    for name in ("dq", "dk", "dv"):
        if run["backward"]:
            yield name, run["backward"][name]


def draw_errors(ax, runs):
    """Per dtype and result: a pair of dots a layer, fa4 and the plain implementation."""
    style_panel(ax, "Largest error to float64 (a dot a layer)")
    ticks, x = [], 0.0
    for dtype in dict.fromkeys(run["dtype"] for run in runs):
        own = [run for run in runs if run["dtype"] == dtype]
        names = [name for name, _ in results_of(own[0])]
        for name in names:
            errors = [dict(results_of(run))[name] for run in own]
            at = x + np.linspace(-0.28, 0.28, len(errors))
            fa4, plain = ([e[key] for e in errors] for key in ("error", "plain"))
            color = DTYPE_COLORS[dtype]
            ax.vlines(at, fa4, plain, color=color, alpha=0.35, lw=1)
            ax.plot(at, plain, "o", mfc=PANEL, mec=color, ms=4.5)
            ax.plot(at, fa4, "o", color=color, ms=4.5)
            ticks.append((x, name))
            x += 1
        ax.text(x - len(names) / 2 - 0.5, -0.12, dtype, color=DTYPE_COLORS[dtype], fontsize=9,
                ha="center", va="top", transform=ax.get_xaxis_transform())
        x += 0.3
    ax.set_yscale("log")
    ax.set_xticks([t for t, _ in ticks], [name for _, name in ticks])
    ax.grid(axis="y", color=FAINT, alpha=0.18)
    ax.plot([], [], "o", color=FAINT, ms=4.5, label="fa4")
    ax.plot([], [], "o", mfc=PANEL, mec=FAINT, ms=4.5, label="plain, same dtype")
    ax.legend(loc="upper left", fontsize=8, labelcolor=INK, frameon=False)


def draw_speed(ax, runs):
    """Time of a layer by pass, dtype and layout: the mean over layers."""
    style_panel(ax, "Time of a layer, microseconds")
    y, labels = 0.0, []
    for name in ("forward", "backward"):
        for dtype in dict.fromkeys(run["dtype"] for run in runs):
            own = [run[name] for run in runs if run["dtype"] == dtype and run[name]]
            if own:
                ax.text(0, y, f"{name}, {dtype}", va="center", fontsize=7.5, weight="bold",
                        color=DTYPE_COLORS[dtype])
                y += 0.9
            for layout in ("packed", "padded", "masked") if own else ():
                micros = np.mean([r["microseconds"][layout] for r in own])
                ax.barh(y, micros, height=0.8, color=DTYPE_COLORS[dtype],
                        alpha=1 if layout == "packed" else 0.5)
                text = f" {micros:.0f}"
                if layout == "packed":
                    text += f"  ({np.mean([r['gflops'] for r in own]):.0f} GFLOP/s)"
                ax.text(micros, y, text, va="center", fontsize=7.5, color=INK)
                labels.append((y, layout))
                y += 1
            y += 0.3 if own else 0
    ax.set_yticks([at for at, _ in labels], [text for _, text in labels], fontsize=7.5, color=INK)
    ax.set_ylim(y - 0.2, -0.8)  # downwards
    ax.set_xlim(0, 1.35 * ax.dataLim.x1)
    ax.set_xticks([])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("json", nargs="?", type=Path, default=Path("out/demo.json"))
    parser.add_argument("--png", type=Path, help="default: demo.png beside the JSON")
    arguments = parser.parse_args()
    png = arguments.png or arguments.json.with_suffix(".png")

    demo = json.loads(arguments.json.read_text(encoding="utf-8"))
    attention, source = demo["attention"], demo["input"]
    maps = np.load(arguments.json.parent / attention["file"])
    tokens = attention["tokens"]
    drawn = attention["drawn_layer"], attention["drawn_head"]

    plt.rcParams.update({"text.color": INK, "font.family": "DejaVu Sans"})
    fig = plt.figure(figsize=(16, 12), facecolor=PAPER)
    fig.text(0.02, 0.965, "What a sentence encoder attends to", fontsize=19, weight="bold")
    fig.text(0.02, 0.943, f"{source['model']}; every probability, error and time by fa4 "
             f"{demo['fa4']} on {demo['cpu']} ({demo['device']})", fontsize=10, color=FAINT)

    where = f"Layer {drawn[0]}, head {drawn[1]}"
    draw_sentence(fig.add_axes((0.02, 0.71, 0.96, 0.195)), tokens, maps[drawn],
                  f"{where}: the word that each token looks at most, if {WORTH_NAMING:.0%} or more")
    draw_head(fig.add_axes((0.075, 0.085, 0.435, 0.58)), tokens, maps[drawn],
              f"{where}: all probabilities")
    draw_all_heads(fig.add_axes((0.545, 0.355, 0.435, 0.31)), maps, drawn)
    draw_errors(fig.add_axes((0.56, 0.055, 0.17, 0.225)), demo["runs"])
    draw_speed(fig.add_axes((0.815, 0.055, 0.165, 0.225)), demo["runs"])
    fig.savefig(png, dpi=120, facecolor=PAPER)
    print(f"Wrote {png}")


if __name__ == "__main__":
    main()
