# SPDX-License-Identifier: BSD-3-Clause
"""Attention of PyTorch and of the FlashAttention wheels on a GPU, timed on request.

`fa4 bench --gpu` runs this beside itself and takes turns with it on one GPU. One JSON object a
line, in and out; the first line out is {"torch": ..., "device": ..., "providers": [names],
"missing": {name: why}} or {"error": why}.

    -> {"op": "cell", "batch": 4, "seqlen": 8192, "heads_q": 16, "heads_k": 16, "dim_qk": 128,
        "dim_v": 128, "causal": false, "dtype": "bfloat16", "providers": ["cudnn"]}
    <- {"ready": ["cudnn"], "problems": {name: why}}        made and run once: compiled
    -> {"op": "run", "provider": "cudnn", "seconds": 0.3}
    <- {"seconds": 0.00123, "runs": 244}                    of one call, by events around the runs,
                                                            after as many that do not count
    -> {"op": "free"}
    <- {"ok": true}

Tensors are standard normal, [b, s, h, d] in memory; torch's functions get views of them.
"""
import json
import sys

GEMM = 8192


def say(message):
    print(json.dumps(message), flush=True)


def sdpa(torch, name):
    """torch's attention, held to one backend."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    backend = getattr(SDPBackend, name)

    def make(q, k, v, causal):
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        gqa = {"enable_gqa": True} if q.shape[1] != k.shape[1] else {}

        def call():
            with sdpa_kernel(backend):
                torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, **gqa)
        return call
    return make


def flex(torch):
    import triton  # noqa: F401  FlexAttention needs it
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    compiled = torch.compile(flex_attention, dynamic=False)

    def make(q, k, v, causal):
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, q.shape[2], k.shape[2],
                                 device=q.device) if causal else None
        gqa = q.shape[1] != k.shape[1]
        return lambda: compiled(q, k, v, block_mask=mask, enable_gqa=gqa)
    return make


def flash3(torch):
    try:
        from flash_attn_interface import flash_attn_func
    except ImportError:
        from flash_attn_3.flash_attn_interface import flash_attn_func
    return lambda q, k, v, causal: lambda: flash_attn_func(q, k, v, causal=causal)


def flash4(torch):
    from flash_attn.cute import flash_attn_func
    return lambda q, k, v, causal: lambda: flash_attn_func(q, k, v, causal=causal)


def gemm(torch):
    """A product as the card's own roof; it looks at nothing of the cell."""
    a, b = (torch.randn(GEMM, GEMM, device="cuda").bfloat16() for _ in range(2))
    out = torch.empty_like(a)
    return lambda q, k, v, causal: lambda: torch.mm(a, b, out=out)


PROVIDERS = {
    "cudnn": lambda torch: sdpa(torch, "CUDNN_ATTENTION"),
    "fa2": lambda torch: sdpa(torch, "FLASH_ATTENTION"),
    "flex": flex,
    "fa3": flash3,
    "fa4-py": flash4,
    "gemm": gemm,
}


class Peer:
    def __init__(self, torch):
        self.torch = torch
        self.makers, self.missing, self.calls, self.once = {}, {}, {}, {}
        for name, get in PROVIDERS.items():
            try:
                self.makers[name] = get(torch)
            except Exception as error:  # Whatever keeps it from loading is the answer.
                self.missing[name] = f"{type(error).__name__}: {error}".splitlines()[0]

    def tensors(self, cell):
        torch = self.torch
        dtype = getattr(torch, cell["dtype"])

        def tensor(heads, dim):
            shape = (cell["batch"], cell["seqlen"], heads, dim)
            return torch.randn(shape, device="cuda", dtype=torch.float32).to(dtype)
        return (tensor(cell["heads_q"], cell["dim_qk"]), tensor(cell["heads_k"], cell["dim_qk"]),
                tensor(cell["heads_k"], cell["dim_v"]))

    def free(self):
        self.calls, self.once = {}, {}
        self.torch.cuda.empty_cache()

    def cell(self, cell):
        self.free()
        problems = {}
        q, k, v = self.tensors(cell)
        for name in cell["providers"]:
            try:
                call = self.makers[name](q, k, v, cell["causal"])
                with self.torch.no_grad():
                    call()
                    self.torch.cuda.synchronize()
                self.calls[name] = call
                self.once[name] = self.time(name, 5)
            except Exception as error:
                problems[name] = f"{type(error).__name__}: {error}".splitlines()[0]
        return {"ready": list(self.calls), "problems": problems}

    def time(self, name, runs, lead_in=0):
        cuda, call = self.torch.cuda, self.calls[name]
        begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        with self.torch.no_grad():
            for _ in range(lead_in):
                call()
            begin.record()
            for _ in range(runs):
                call()
            end.record()
        end.synchronize()
        return begin.elapsed_time(end) / runs * 1e-3

    def run(self, name, seconds):
        runs = max(3, round(seconds / self.once[name]))
        self.once[name] = self.time(name, runs, lead_in=runs)
        return {"seconds": self.once[name], "runs": runs}


def main():
    try:
        import torch
        if not torch.cuda.is_available():
            raise RuntimeError("torch sees no CUDA device")
        torch.zeros(1, device="cuda")
        torch.manual_seed(torch.seed())
        peer = Peer(torch)
    except Exception as error:
        say({"error": str(error).splitlines()[0] if str(error) else type(error).__name__})
        return
    say({"torch": torch.__version__, "device": torch.cuda.get_device_name(),
         "cudnn": torch.backends.cudnn.version(), "providers": list(peer.makers),
         "missing": peer.missing})
    for line in sys.stdin:
        try:
            request = json.loads(line)
            if request["op"] == "cell":
                say(peer.cell(request))
            elif request["op"] == "run":
                say(peer.run(request["provider"], request["seconds"]))
            else:
                peer.free()
                say({"ok": True})
        except Exception as error:
            say({"error": f"{type(error).__name__}: {error}".splitlines()[0]})


main()
