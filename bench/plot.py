#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws the JSON of `fa4 bench --json FILE` as bar charts.

    python3 bench/plot.py bench.json -o docs/img [--table results.md]

writes prefill.png (every core; a row of panels for the forward, one for the backward),
prefill-1-thread.png and decode.png; of `fa4 bench --gpu` gpu-D.png for each head dim, a panel without
and one with the causal mask. Needs matplotlib.
"""
import argparse
import json
import pathlib

import matplotlib

matplotlib.use("Agg")
import matplotlib.patheffects  # noqa: E402
import matplotlib.pyplot as plt  # noqa: E402

FA4, TORCH, INK, QUIET, ROOF = "#7a3fb8", "#b9bec7", "#22252b", "#6b7280", "#c2410c"
WIDTH = 0.41
DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "fp64": "float64"}

plt.rcParams.update({
    "font.family": "sans-serif",
    "font.sans-serif": ["Inter", "Helvetica Neue", "Arial", "DejaVu Sans"],
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": "#d1d5db",
    "axes.labelcolor": QUIET,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "xtick.color": INK,
    "ytick.color": QUIET,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": "#e5e7eb",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
})


def rate(cell, side):
    """10^9 flop or bytes a second of the best run; None if there is none."""
    times = cell[side]
    return None if times is None else cell["work"] / times["best_seconds"] * 1e-9


def short(value):
    return f"{value:.0f}" if value >= 20 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def label_bars(axes, positions, values, color, bold):
    for x, value in zip(positions, values):
        if value is None:
            continue
        axes.annotate(short(value), (x, value), xytext=(0, 2.5), textcoords="offset points", ha="center",
                      va="bottom", fontsize=9.5, color=color, fontweight="bold" if bold else None)


def label_ratios(axes, cells, top):
    """How many times torch's rate, in the bar, where both have one and the bar has room."""
    for place, cell in enumerate(cells):
        ours, torch = rate(cell, "fa4"), rate(cell, "torch")
        if ours is None or torch is None or ours < 0.12 * top:
            continue
        ratio = ours / torch
        text = f"{ratio:.{2 if ratio < 2 else 1 if ratio < 10 else 0}f}×"
        axes.annotate(text, (place - WIDTH / 2, ours), xytext=(0, -4), textcoords="offset points",
                      ha="center", va="top", fontsize=8.5, color="white", fontweight="bold", zorder=3)


def draw_panel(axes, cells, names, roof, unit, top):
    """Groups of two bars, ours and torch's, below a line for the roof."""
    places = range(len(cells))
    for side, shift, color, ink in (("fa4", -WIDTH / 2, FA4, FA4), ("torch", WIDTH / 2, TORCH, QUIET)):
        values = [rate(cell, side) for cell in cells]
        xs = [place + shift for place in places]
        axes.bar(xs, [value or 0 for value in values], WIDTH * 0.94, color=color, zorder=2)
        label_bars(axes, xs, values, ink, side == "fa4")
    label_ratios(axes, cells, top)
    axes.axhline(roof, color=ROOF, linewidth=1.1, linestyle=(0, (5, 3)), zorder=1)
    axes.set_xlim(-0.62, len(cells) - 0.38)
    axes.set_ylim(0, top)
    axes.annotate(f"roof {short(roof)} {unit}", (1, roof), xycoords=("axes fraction", "data"),
                  xytext=(0, 3), textcoords="offset points", ha="right", va="bottom", fontsize=8.5,
                  color=ROOF)
    axes.set_xticks(list(places), names)
    axes.tick_params(length=0)


def add_head(figure, title, subtitle, has_torch):
    """Title, subtitle and legend, set in inches from the top edge, whatever the figure's height."""
    height = figure.get_figheight()
    figure.text(0.012, 1 - 0.12 / height, title, fontsize=15, fontweight="bold", va="top")
    figure.text(0.012, 1 - 0.44 / height, subtitle, fontsize=10, color=QUIET, va="top")
    handles = [plt.Rectangle((0, 0), 1, 1, color=FA4)]
    labels = ["fa4 (inside: times PyTorch)" if has_torch else "fa4"]
    if has_torch:
        handles.append(plt.Rectangle((0, 0), 1, 1, color=TORCH))
        labels.append("PyTorch SDPA")
    figure.legend(handles, labels, loc="upper right", bbox_to_anchor=(0.99, 1 - 0.06 / height),
                  ncol=2, frameon=False, fontsize=10, handlelength=1, handleheight=1,
                  columnspacing=1.4)


def machine(data):
    text = f"{data['cpu']}, {data['target']}"
    if data["torch"]:
        text += f"; PyTorch {data['torch'].split(',')[0]}"
    return text + "; best of interleaved runs"


def tokens(count):
    return f"{count:,} tokens"


def threads_text(threads):
    return "1 thread" if threads == 1 else f"{threads} threads"


def draw_prefill(data, threads, folder):
    cells = [c for c in data["cells"] if c["kind"] == "prefill" and c["threads"] == threads]
    if not cells:
        return None
    passes = [p for p in ("forward", "backward") if any(c["pass"] == p and c["fa4"] for c in cells)]
    dtypes = list(dict.fromkeys(c["dtype"] for c in cells))
    if not passes:
        return None
    height = 1.0 + 2.75 * len(passes)
    figure, grid = plt.subplots(len(passes), len(dtypes), figsize=(5.4 * len(dtypes), height),
                                squeeze=False)
    top = 1.16 * max(max(c["roof"], rate(c, "fa4") or 0, rate(c, "torch") or 0) for c in cells)
    for row, which in zip(grid, passes):
        for axes, dtype in zip(row, dtypes):
            chosen = [c for c in cells if c["pass"] == which and c["dtype"] == dtype]
            names = [f"d {c['dim']}\n{'causal' if c['causal'] else 'full'}" for c in chosen]
            draw_panel(axes, chosen, names, chosen[0]["roof"], "GFLOP/s", top)
            axes.set_title(f"{which.capitalize()}, {DTYPES[dtype]}", fontsize=11, loc="left",
                           fontweight="bold", pad=8)
        row[0].set_ylabel("GFLOP/s")
    first = cells[0]
    add_head(figure,
             f"Attention on the CPU, {threads_text(threads)}",
             f"{tokens(first['seqlen_q'])}, batch {first['batch']}, {first['heads_q']} heads. "
             f"{machine(data)}",
             any(c["torch"] for c in cells))
    figure.subplots_adjust(left=0.062, right=0.992, top=1 - 1.05 / height, bottom=0.52 / height,
                           hspace=0.5, wspace=0.11)
    every = threads == max(c["threads"] for c in data["cells"])
    return save(figure, folder / ("prefill.png" if every else f"prefill-{threads}-thread.png"))


def draw_decode(data, folder):
    cells = [c for c in data["cells"] if c["kind"] == "decode"]
    counts = list(dict.fromkeys(c["threads"] for c in cells))
    if not cells:
        return None
    height = 3.9
    figure, grid = plt.subplots(1, len(counts), figsize=(5.4 * len(counts), height), squeeze=False)
    top = 1.16 * max(max(c["roof"], rate(c, "fa4") or 0, rate(c, "torch") or 0) for c in cells)
    for axes, threads in zip(grid[0], counts):
        chosen = [c for c in cells if c["threads"] == threads]
        names = [f"{c['dtype']}\n{c['heads_q']} query heads" for c in chosen]
        draw_panel(axes, chosen, names, chosen[0]["roof"], "GB/s", top)
        axes.set_title(threads_text(threads), fontsize=11, loc="left", fontweight="bold", pad=8)
    grid[0][0].set_ylabel("GB/s of k and v")
    first = cells[0]
    size = first["work"] / 2**20
    add_head(figure, "Decode on the CPU",
             f"One query, {first['heads_k']} key heads, d {first['dim']}, {size:.0f} MiB of k and v. "
             f"{machine(data)}",
             any(c["torch"] for c in cells))
    figure.subplots_adjust(left=0.062, right=0.992, top=1 - 1.05 / height, bottom=0.52 / height,
                           wspace=0.11)
    return save(figure, folder / "decode.png")


GPU_NAMES = {"fa4": "fa4", "cudnn": "cuDNN", "fa2": "FlashAttention-2", "fa3": "FlashAttention-3",
             "fa4-py": "FlashAttention-4 (Python)", "flex": "FlexAttention"}
GPU_COLORS = {"fa4": FA4, "cudnn": "#8fae7c", "fa2": "#b9bec7", "fa3": "#7d8aa0", "fa4-py": "#c9a86a",
              "flex": "#d9c7d0"}


def draw_gpu_panel(axes, cells, providers, top):
    """A group of bars for each length, a line where the card's own product ran."""
    width = 0.84 / len(providers)
    for index, name in enumerate(providers):
        values = [c["turns"][name]["tflops"] if name in c["turns"] else None for c in cells]
        xs = [place - 0.42 + width * (index + 0.5) for place in range(len(cells))]
        axes.bar(xs, [value or 0 for value in values], width * 0.94, color=GPU_COLORS[name], zorder=2)
        label_gpu_bars(axes, xs, values, FA4 if name == "fa4" else QUIET, name == "fa4")
    roofs = [c["turns"]["gemm"]["tflops"] if "gemm" in c["turns"] else None for c in cells]
    for place, roof in enumerate(roofs):
        if roof is not None:
            axes.plot([place - 0.46, place + 0.46], [roof, roof], color=ROOF, linewidth=1.1,
                      linestyle=(0, (5, 3)), zorder=3)
    axes.set_xlim(-0.62, len(cells) - 0.38)
    axes.set_ylim(0, top)
    axes.set_xticks(range(len(cells)), [length_text(c["seqlen"]) for c in cells])
    axes.tick_params(length=0)
    axes.set_xlabel("sequence length")


def label_gpu_bars(axes, positions, values, color, bold):
    for x, value in zip(positions, values):
        if value is not None:
            text = axes.annotate(short(value), (x, value), xytext=(0, 2.5), textcoords="offset points",
                                 ha="center", va="bottom", fontsize=7.5, color=color, zorder=4,
                                 fontweight="bold" if bold else None)
            # A roof's line may run through it.
            text.set_path_effects([matplotlib.patheffects.withStroke(linewidth=2.5, foreground="white")])


def length_text(seqlen):
    return f"{seqlen // 1024}k" if seqlen >= 1024 else str(seqlen)


def draw_gpu(data, shape, folder):
    dim_qk, dim_v, heads_q, heads_k = shape
    cells = [c for c in data["cells"]
             if (c["dim_qk"], c["dim_v"], c["heads_q"], c["heads_k"]) == shape and c["turns"]]
    if not cells:
        return None
    providers = [p for p in data["providers"] if p != "gemm" and any(p in c["turns"] for c in cells)]
    height = 3.9
    figure, grid = plt.subplots(1, 2, figsize=(13, height), squeeze=False)
    top = 1.12 * max(t["tflops"] for c in cells for t in c["turns"].values())
    for axes, causal in zip(grid[0], (False, True)):
        draw_gpu_panel(axes, [c for c in cells if c["causal"] == causal], providers, top)
        axes.set_title("Causal" if causal else "Full", fontsize=11, loc="left", fontweight="bold", pad=8)
    grid[0][0].set_ylabel("TFLOP/s")
    dims = str(dim_qk) if dim_qk == dim_v else f"({dim_qk}, {dim_v})"
    heads = f"{heads_q} heads" if heads_q == heads_k else f"{heads_q} query heads, {heads_k} key heads"
    figure.text(0.012, 1 - 0.12 / height, f"Attention forward, head dim {dims}", fontsize=15,
                fontweight="bold", va="top")
    figure.text(0.012, 1 - 0.44 / height,
                f"{data['device']}, bf16, 32k tokens, {heads}; {data['seconds']:g} s turns under load, "
                "median. Dashed: a cuBLAS product of 8192³", fontsize=10, color=QUIET, va="top")
    handles = [plt.Rectangle((0, 0), 1, 1, color=GPU_COLORS[name]) for name in providers]
    figure.legend(handles, [GPU_NAMES[name] for name in providers], loc="upper right",
                  bbox_to_anchor=(0.99, 1 - 0.06 / height), ncol=len(providers), frameon=False,
                  fontsize=10, handlelength=1, handleheight=1, columnspacing=1.4)
    figure.subplots_adjust(left=0.05, right=0.992, top=1 - 1.05 / height, bottom=0.62 / height,
                           wspace=0.09)
    group = "" if heads_q == heads_k else f"-g{heads_q // heads_k}"
    name = f"gpu-d{dim_qk}" + ("" if dim_qk == dim_v else f"x{dim_v}") + group
    return save(figure, folder / f"{name}.png")


def prefill_rows(data, threads):
    yield "| pass | dtype | d | mask | fa4 GFLOP/s | of roof | PyTorch | fa4 / PyTorch |"
    yield "|---|---|--:|---|--:|--:|--:|--:|"
    for cell in data["cells"]:
        if cell["kind"] == "prefill" and cell["threads"] == threads:
            yield (f"| {cell['pass']} | {DTYPES[cell['dtype']]} | {cell['dim']} "
                   f"| {'causal' if cell['causal'] else 'full'} | {figures(cell)} |")


def decode_rows(data, threads):
    yield "| dtype | query heads | roof, GB/s | of read | fa4 GB/s | of roof | PyTorch | fa4 / PyTorch |"
    yield "|---|--:|---|--:|--:|--:|--:|--:|"
    for cell in data["cells"]:
        if cell["kind"] == "decode" and cell["threads"] == threads:
            read = f"{cell['share_of_read']:.0%}" if "share_of_read" in cell else "-"
            yield (f"| {DTYPES[cell['dtype']]} | {cell['heads_q']} "
                   f"| {short(cell['roof'])} {cell['roof_is']} | {read} | {figures(cell)} |")


def figures(cell):
    ours, torch = rate(cell, "fa4"), rate(cell, "torch")
    ratio = f"{ours / torch:.2f}×" if ours and torch else "-"
    return " | ".join([short(ours) if ours else "-", f"{ours / cell['roof']:.0%}" if ours else "-",
                       short(torch) if torch else "-", ratio])


def write_table(data, path):
    """The same figures as Markdown."""
    lines = ["# Bench of the CPU", "", f"{machine(data)}. Made by", "", "```",
             "fa4 bench --cpu --json docs/bench.json",
             "python3 bench/plot.py docs/bench.json -o docs/img --table docs/bench_results.md", "```",
             "", "[bench.md](bench.md) says what is measured, and how."]
    for threads in dict.fromkeys(c["threads"] for c in data["cells"]):
        lines += ["", f"## Prefill, {threads_text(threads)}", "", *prefill_rows(data, threads),
                  "", f"## Decode, {threads_text(threads)}", "", *decode_rows(data, threads)]
    lines += ["", "## Goals", "", "| | is | goal | what |", "|---|--:|--:|---|"]
    for goal in data["goals"]:
        lines.append(f"| {'met' if goal['met'] else 'missed'} | {goal['value']:.2f} | {goal['goal']:.2f} "
                     f"| {goal['what']} |")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def save(figure, path):
    figure.savefig(path, dpi=130, facecolor="white")
    plt.close(figure)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("json", type=pathlib.Path, help="what fa4 bench --json wrote")
    parser.add_argument("-o", "--out", type=pathlib.Path, default=pathlib.Path("."),
                        help="folder for the pictures (default: here)")
    parser.add_argument("--table", type=pathlib.Path, help="write the CPU's figures as Markdown too")
    arguments = parser.parse_args()
    data = json.loads(arguments.json.read_text())
    if arguments.table is not None:
        write_table(data, arguments.table)
    arguments.out.mkdir(parents=True, exist_ok=True)
    if data.get("kind") == "gpu":
        shapes = dict.fromkeys((c["dim_qk"], c["dim_v"], c["heads_q"], c["heads_k"])
                               for c in data["cells"])
        pictures = [draw_gpu(data, shape, arguments.out) for shape in shapes]
    else:
        counts = list(dict.fromkeys(c["threads"] for c in data["cells"]))
        pictures = [draw_prefill(data, threads, arguments.out) for threads in counts]
        pictures.append(draw_decode(data, arguments.out))
    for picture in pictures:
        if picture is not None:
            print(f"wrote {picture}")


if __name__ == "__main__":
    main()
