# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch's CPU attention, timed one call at a time on request.

`fa4 bench` runs this beside itself and takes turns with it. One JSON object a line, in and out:

    -> {"op": "prepare", "pass": "forward", "dtype": "float32", "batch": 1, "seqlen_q": 2048,
        "seqlen_k": 2048, "heads_q": 8, "heads_k": 8, "dim": 64, "causal": false, "threads": 1}
    <- {"ok": true}
    -> {"op": "run"}
    <- {"seconds": 0.0123}

The first line out is {"torch": "2.x", "capability": "AVX2"} or {"error": "why not"}.
"""
import json
import sys
import time


def say(message):
    print(json.dumps(message), flush=True)


def make_call(torch, cell):
    """A function that does the cell's work once. Tensors are [b, h, s, d], contiguous."""
    torch.set_num_threads(cell["threads"])
    dtype = getattr(torch, cell["dtype"])
    backward = cell["pass"] == "backward"

    def tensor(seqlen, heads):
        shape = (cell["batch"], heads, seqlen, cell["dim"])
        return torch.randn(shape).to(dtype).requires_grad_(backward)

    q = tensor(cell["seqlen_q"], cell["heads_q"])
    k = tensor(cell["seqlen_k"], cell["heads_k"])
    v = tensor(cell["seqlen_k"], cell["heads_k"])
    options = {"is_causal": cell["causal"]}
    if cell["heads_q"] != cell["heads_k"]:
        options["enable_gqa"] = True
    attention = torch.nn.functional.scaled_dot_product_attention
    if not backward:
        def forward():
            with torch.no_grad():
                attention(q, k, v, **options)
        return forward
    out = attention(q, k, v, **options)
    dout = torch.randn_like(out)
    return lambda: torch.autograd.grad(out, (q, k, v), dout, retain_graph=True)


def main():
    try:
        import torch
    except Exception as error:  # Whatever keeps torch from loading is the answer.
        say({"error": str(error)})
        return
    torch.manual_seed(0)
    say({"torch": torch.__version__, "capability": torch.backends.cpu.get_cpu_capability()})
    call = None
    for line in sys.stdin:
        try:
            request = json.loads(line)
            if request["op"] == "prepare":
                call = None  # Free the last cell's tensors first.
                call = make_call(torch, request)
                call()
                say({"ok": True})
            else:
                start = time.perf_counter()
                call()
                say({"seconds": time.perf_counter() - start})
        except Exception as error:
            say({"error": str(error)})


main()
