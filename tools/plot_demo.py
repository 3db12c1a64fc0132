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
from matplotlib.patches import FancyArrowPatch, Rectangle

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


def draw_sentence(ax, tokens, probabilities, title):
    """The sentence in one line, an arc from each token to the word that it looks at most."""
    starts = np.cumsum([0] + [len(t) + 1 for t in tokens])
    middle = [starts[i] + len(t) / 2 for i, t in enumerate(tokens)]
    width = starts[-1] - 1
    ax.set_xlim(0, width)
    ax.set_ylim(-0.25, 1)
    ax.axis("off")
    keys = set()
    for query, key, p in strongest_keys(tokens, probabilities):
        keys.add(key)
        span = abs(middle[query] - middle[key])
        ax.add_patch(
            FancyArrowPatch(
                (middle[query], 0.06),
                (middle[key], 0.06),
                connectionstyle=f"arc3,rad={np.sign(middle[query] - middle[key]) * 0.42}",
                arrowstyle="-|>",
                mutation_scale=6 + 6 * p,
                linewidth=0.6 + 3.2 * p,
                color=plt.get_cmap("magma")(0.45 + 0.5 * p),
                alpha=0.45 + 0.55 * p,
                zorder=2 + p,
                clip_on=False,
            )
        ) if span else None
    for i, token in enumerate(tokens):
        color = FAINT if is_special(token) else ACCENT if i in keys else INK
        ax.text(middle[i], -0.02, token, ha="center", va="top", family="monospace",
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


def draw_all_heads(fig, cell, maps, drawn):
    layers, heads = maps.shape[:2]
    grid = cell.subgridspec(layers, heads, wspace=0.08, hspace=0.08)
    for layer in range(layers):
        for head in range(heads):
            ax = fig.add_subplot(grid[layer, head])
            ax.imshow(maps[layer, head], **MAP)
            ax.set_xticks([])
            ax.set_yticks([])
            for spine in ax.spines.values():
                spine.set_visible((layer, head) == drawn)
                spine.set_color(ACCENT)
                spine.set_linewidth(2)
            if head == 0:
                ax.set_ylabel(f"layer {layer}", fontsize=8, color=FAINT)
            if layer == layers - 1:
                ax.set_xlabel(f"head {head}" if head == 0 else str(head), fontsize=8, color=FAINT)
            if (layer, head) == (0, 0):
                ax.set_title(f"All {layers * heads} heads, the same sentence", loc="left",
                             fontsize=11, color=INK, pad=6)


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
    style_panel(ax, "Largest error to float64, a dot for each layer")
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
        ax.text(x - len(names) / 2 - 0.5, 1.0, dtype, color=DTYPE_COLORS[dtype], fontsize=9,
                ha="center", va="bottom", transform=ax.get_xaxis_transform())
        x += 0.5
    ax.set_yscale("log")
    ax.set_xticks([t for t, _ in ticks], [name for _, name in ticks])
    ax.grid(axis="y", color=FAINT, alpha=0.18)
    ax.plot([], [], "o", color=FAINT, ms=4.5, label="fa4")
    ax.plot([], [], "o", mfc=PANEL, mec=FAINT, ms=4.5, label="plain, same dtype")
    ax.legend(loc="center left", bbox_to_anchor=(0.02, 0.62), fontsize=8, labelcolor=INK,
              frameon=False)


def draw_speed(ax, runs):
    """Time of a layer by pass, layout and dtype: the mean over layers."""
    style_panel(ax, "Time of one layer, mean of all (GFLOP/s over the texts' own scores)")
    y, labels = 0.0, []
    for name in ("forward", "backward"):
        for dtype in dict.fromkeys(run["dtype"] for run in runs):
            own = [run[name] for run in runs if run["dtype"] == dtype and run[name]]
            for layout in ("padded", "masked", "packed") if own else ():
                micros = np.mean([r["microseconds"][layout] for r in own])
                packed = np.mean([r["microseconds"]["packed"] for r in own])
                rate = np.mean([r["gflops"] for r in own]) * packed / micros
                ax.barh(y, micros, height=0.78, color=DTYPE_COLORS[dtype],
                        alpha=1 if layout == "packed" else 0.55)
                ax.text(micros, y, f"  {micros:.0f} us, {rate:.0f} GFLOP/s", va="center",
                        fontsize=7.5, color=INK)
                labels.append((y, f"{name} {dtype} {layout}"))
                y += 1
            y += 0.4 if own else 0
    ax.set_yticks([y for y, _ in labels], [text for _, text in labels], fontsize=7.5, color=INK)
    ax.invert_yaxis()
    ax.set_xlim(0, 1.28 * ax.dataLim.x1)
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
    fig = plt.figure(figsize=(16, 12.4), facecolor=PAPER)
    grid = fig.add_gridspec(3, 2, height_ratios=(2.0, 6.3, 2.9), width_ratios=(1, 1.16),
                            left=0.07, right=0.975, top=0.9, bottom=0.035, hspace=0.24, wspace=0.08)
    fig.text(0.02, 0.967, "What a sentence encoder attends to", fontsize=19, weight="bold")
    fig.text(0.02, 0.944, f"{source['model']}; every probability, error and time by fa4 "
             f"{demo['fa4']}: {demo['device']}", fontsize=10, color=FAINT)

    where = f"Layer {drawn[0]}, head {drawn[1]}"
    strip = fig.add_subplot(grid[0, :])
    strip.set_position([0.02, strip.get_position().y0, 0.96, strip.get_position().height])
    draw_sentence(strip, tokens, maps[drawn],
                  f"{where}: the word that each token looks at most, if at least {WORTH_NAMING:.0%}")
    draw_head(fig.add_subplot(grid[1, 0]), tokens, maps[drawn], f"{where}: all probabilities")
    draw_all_heads(fig, grid[1, 1], maps, drawn)
    draw_errors(fig.add_subplot(grid[2, 0]), demo["runs"])
    draw_speed(fig.add_subplot(grid[2, 1]), demo["runs"])
    fig.savefig(png, dpi=120, facecolor=PAPER)
    print(f"Wrote {png}")


if __name__ == "__main__":
    main()
