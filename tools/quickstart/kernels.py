"""The kernels of the quickstart's problems: statements, and how they nest.

A problem is a short program over a matrix x (and sometimes y), e.g.
x@relu@add@y@half. Every statement is one line without indentation, and every
operation is the same statement wherever it stands, so that a tokenizer split
at lines makes most statements one token.
"""

from __future__ import annotations

from dataclasses import dataclass, field

# name: (CUDA statement on v, PyTorch expression of v, exact in fp32)
UNARY: dict[str, tuple[str, str, bool]] = {
    "neg": ("v = -v;", "-v", True),
    "abs": ("v = fabsf(v);", "v.abs()", True),
    "relu": ("v = fmaxf(v, 0.0f);", "torch.relu(v)", True),
    "half": ("v = v * 0.5f;", "v * 0.5", True),
    "twice": ("v = v + v;", "v + v", True),
    "clamp": ("v = fminf(fmaxf(v, -1.0f), 1.0f);", "v.clamp(-1, 1)", True),
    "inc": ("v = v + 1.0f;", "v + 1", False),
    "dec": ("v = v - 1.0f;", "v - 1", False),
    "square": ("v = v * v;", "v * v", False),
    "sigmoid": ("v = 1.0f / (1.0f + expf(-v));", "torch.sigmoid(v)", False),
    "tanh": ("v = tanhf(v);", "torch.tanh(v)", False),
    "softsign": ("v = v / (1.0f + fabsf(v));", "v / (1 + v.abs())", False),
    "bell": ("v = 1.0f / (1.0f + v * v);", "1 / (1 + v * v)", False),
    "leaky": ("v = fmaxf(v, 0.25f * v);", "torch.maximum(v, 0.25 * v)", True),
}
# name: (CUDA with {y}, PyTorch)
BINARY: dict[str, tuple[str, str]] = {
    "add": ("v = v + {y};", "v + {y}"),
    "sub": ("v = v - {y};", "v - {y}"),
    "mul": ("v = v * {y};", "v * {y}"),
    "max": ("v = fmaxf(v, {y});", "torch.maximum(v, {y})"),
    "min": ("v = fminf(v, {y});", "torch.minimum(v, {y})"),
}
# name: (initial value, accumulation of v into a)
FOLD: dict[str, tuple[str, str]] = {
    "sum": ("0.0f", "a = a + v;"),
    "mean": ("0.0f", "a = a + v;"),
    "max": ("-3.0e38f", "a = fmaxf(a, v);"),
    "min": ("3.0e38f", "a = fminf(a, v);"),
}


@dataclass
class Kernel:
    """What the generator writes of one problem."""

    spec: str  # what stands in the prompt after "// "
    forward: list[str]  # PyTorch statements on v, from x and y
    inputs: list[tuple[int, ...]]
    output: tuple[int, ...]
    threads: int
    prefix: list[str]
    naive: list[str]
    good: list[str]
    suffix: list[str] = field(default_factory=lambda: ["}", "}"])


@dataclass(frozen=True)
class Problem:
    """One point of the problem space; `core` is the family's middle operation."""

    family: str
    core: str = ""
    pre: tuple[str, ...] = ()
    post: tuple[str, ...] = ()


# Sizes: a call costs some 10 us on the emulated device before its first thread
# runs. The naive kernel takes 100-900 us there and the good one 10-100, so that
# the speedup of a kernel, not of its call, is what is measured.
H, W = 16, 128  # matrices of the element families
N = 64  # square matrices of the row and column families
S = 32  # softmax, whose exponentials are dear
M = 16  # square factors of the products


def statements(ops: tuple[str, ...]) -> list[str]:
    return [UNARY[op][0] for op in ops]


def torch_lines(ops: tuple[str, ...]) -> list[str]:
    return [f"v = {UNARY[op][1]}" for op in ops]


def element_prefix(rows: int, columns: int) -> list[str]:
    return [
        "int i = blockIdx.x * blockDim.x + threadIdx.x;",
        f"int r = i / {columns}, c = i % {columns};",
        f"if (i < {rows * columns}) {{",
    ]


def line_prefix(name: str, n: int = N) -> list[str]:
    return [
        f"int {name} = blockIdx.x * blockDim.x + threadIdx.x;",
        f"if ({name} < {n}) {{",
    ]


def loop(head: str, body: list[str]) -> list[str]:
    return [head + " {", *body, "}"]


ALL = f"for (int j = 0; j < {N}; ++j)"
EACH = f"for (int k = 0; k < {N}; ++k)"
ROW = f"float v = x[r * {N} + j];"


def spec_of(*parts: str | tuple[str, ...]) -> str:
    out = "x"
    for part in parts:
        for name in (part,) if isinstance(part, str) else part:
            out += "@" + name
    return out


def search(column: str, body: list[str], store: str) -> list[str]:
    """The naive way to one element: look at the whole row for it. (A compiler
    moves what only the last round of a loop decides out of it, but not this.)"""
    found = loop(f"if (j == {column})", [f"v = x[r * {W} + j];", *body])
    return ["float v = 0.0f;", *loop(f"for (int j = 0; j < {W}; ++j)", found), store]


def chain(p: Problem) -> Kernel:
    ops = statements(p.pre)
    return Kernel(
        spec=spec_of(p.pre),
        forward=torch_lines(p.pre),
        inputs=[(H, W)],
        output=(H, W),
        threads=H * W,
        prefix=element_prefix(H, W),
        naive=search("c", ops, "o[i] = v;"),
        good=["float v = x[i];", *ops, "o[i] = v;"],
    )


# family: (shape of y, y in the prompt, y of this element, y of element j)
OPERAND = {
    "pair": ((H, W), "y", "y[i]", f"y[r * {W} + j]"),
    "row": ((W,), "yrow", "y[c]", "y[j]"),
    "column": ((H, 1), "ycol", "y[r]", "y[r]"),
}


def binary(p: Problem) -> Kernel:
    shape, name, here, there = OPERAND[p.family]
    cuda, torch = BINARY[p.core]
    pre, post = statements(p.pre), statements(p.post)
    return Kernel(
        spec=spec_of(p.pre, p.core, name, p.post),
        forward=[*torch_lines(p.pre), f"v = {torch.format(y='y')}", *torch_lines(p.post)],
        inputs=[(H, W), shape],
        output=(H, W),
        threads=H * W,
        prefix=element_prefix(H, W),
        naive=search("c", [*pre, cuda.format(y=there), *post], "o[i] = v;"),
        good=["float v = x[i];", *pre, cuda.format(y=here), *post, "o[i] = v;"],
    )


def transpose(p: Problem) -> Kernel:
    ops = statements(p.pre)
    store = f"o[c * {H} + r] = v;"
    return Kernel(
        spec=spec_of("t", p.pre),
        forward=["v = v.t()", *torch_lines(p.pre)],
        inputs=[(H, W)],
        output=(W, H),
        threads=H * W,
        prefix=element_prefix(H, W),
        naive=search("c", ops, store),
        good=["float v = x[i];", *ops, store],
    )


# core: (column that is read, PyTorch)
GATHER = {
    "flip": (f"{W - 1} - c", "v.flip(1)"),
    "roll": (f"(c + 1) % {W}", "v.roll(-1, 1)"),
    "swap": ("(c ^ 1)", f"v.view({H}, {W // 2}, 2).flip(2).reshape({H}, {W})"),
    "wrap": (f"(c + {W // 2}) % {W}", f"v.roll({W // 2}, 1)"),
}


def gather(p: Problem) -> Kernel:
    column, torch = GATHER[p.core]
    ops = statements(p.pre)
    return Kernel(
        spec=spec_of(p.core, p.pre),
        forward=[f"v = {torch}", *torch_lines(p.pre)],
        inputs=[(H, W)],
        output=(H, W),
        threads=H * W,
        prefix=element_prefix(H, W),
        naive=search(column, ops, "o[i] = v;"),
        good=[f"float v = x[r * {W} + {column}];", *ops, "o[i] = v;"],
    )


def again(start: str, body: list[str], n: int = N) -> list[str]:
    """The naive fold: each prefix from scratch, the last one counts."""
    return [
        f"float a = {start};",
        *loop(
            f"for (int t = 0; t < {n}; ++t)",
            [f"a = {start};", *loop("for (int j = 0; j <= t; ++j)", body)],
        ),
    ]


def once(start: str, body: list[str], n: int = N) -> list[str]:
    return [f"float a = {start};", *loop(f"for (int j = 0; j < {n}; ++j)", body)]


def fold(p: Problem) -> Kernel:
    start, add = FOLD[p.core]
    rows = p.family == "rowfold"
    line = "r" if rows else "c"
    load = ROW if rows else f"float v = x[j * {N} + c];"
    body = [load, *statements(p.pre), add]
    out = f"float v = a * {1 / N}f;" if p.core == "mean" else "float v = a;"
    tail = [out, *statements(p.post), f"o[{line}] = v;"]
    dim = 1 if rows else 0
    torch = f"v.{'a' if p.core in ('max', 'min') else ''}{p.core}({dim})"
    return Kernel(
        spec=spec_of(p.pre, ("row" if rows else "col") + p.core, p.post),
        forward=[*torch_lines(p.pre), f"v = {torch}", *torch_lines(p.post)],
        inputs=[(N, N)],
        output=(N,),
        threads=N,
        prefix=line_prefix(line),
        naive=[*again(start, body), *tail],
        good=[*once(start, body), *tail],
    )


def dot(p: Problem) -> Kernel:
    body = [ROW, *statements(p.pre), f"a = a + v * fabsf(y[r * {N} + j]);"]
    tail = ["float v = a;", *statements(p.post), "o[r] = v;"]
    return Kernel(
        spec=spec_of(p.pre, "dot", "y", p.post),
        forward=[*torch_lines(p.pre), "v = (v * y.abs()).sum(1)", *torch_lines(p.post)],
        inputs=[(N, N), (N, N)],
        output=(N,),
        threads=N,
        prefix=line_prefix("r"),
        naive=[*again("0.0f", body), *tail],
        good=[*once("0.0f", body), *tail],
    )


def matmul(p: Problem) -> Kernel:
    body = [
        f"float v = x[r * {M} + j];",
        *statements(p.pre),
        f"a = a + v * fabsf(y[j * {M} + c]);",
    ]
    tail = ["float v = a;", *statements(p.post), "o[i] = v;"]
    return Kernel(
        spec=spec_of(p.pre, "matmul", "y", p.post),
        forward=[*torch_lines(p.pre), "v = v @ y.abs()", *torch_lines(p.post)],
        inputs=[(M, M), (M, M)],
        output=(M, M),
        threads=M * M,
        prefix=element_prefix(M, M),
        naive=[*again("0.0f", body, M), *tail],
        good=[*once("0.0f", body, M), *tail],
    )


# core: (start, accumulation, use, PyTorch)
NORM = {
    "maxnorm": ("0.0f", "a = fmaxf(a, fabsf(v));", "v = v / (1.0f + a);",
                "v / (1 + v.abs().amax(1, keepdim=True))"),
    "sumnorm": ("0.0f", "a = a + fabsf(v);", "v = v / (1.0f + a);",
                "v / (1 + v.abs().sum(1, keepdim=True))"),
    "rmsnorm": ("0.0f", "a = a + v * v;", f"v = v / sqrtf(1.0f + a * {1 / N}f);",
                "v / torch.sqrt(1 + (v * v).mean(1, keepdim=True))"),
    "submax": ("-3.0e38f", "a = fmaxf(a, v);", "v = v - a;",
               "v - v.amax(1, keepdim=True)"),
}  # fmt: skip


def normalise(p: Problem) -> Kernel:
    start, add, use, torch = NORM[p.core]
    pre, post = statements(p.pre), statements(p.post)
    first = once(start, [ROW, *pre, add])
    return Kernel(
        spec=spec_of(p.pre, p.core, p.post),
        forward=[*torch_lines(p.pre), f"v = {torch}", *torch_lines(p.post)],
        inputs=[(N, N)],
        output=(N, N),
        threads=N,
        prefix=line_prefix("r"),
        naive=loop(EACH, [*first, f"float v = x[r * {N} + k];", *pre, use, *post,
                          f"o[r * {N} + k] = v;"]),
        good=[*first, *loop(ALL, [ROW, *pre, use, *post, f"o[r * {N} + j] = v;"])],
    )  # fmt: skip


def softmax(p: Problem) -> Kernel:
    pre, post = statements(p.pre), statements(p.post)
    every = f"for (int j = 0; j < {S}; ++j)"
    load, load_k = (f"float v = x[r * {S} + {i}];" for i in "jk")
    most = ["float m = -3.0e38f;", *loop(every, [load, *pre, "m = fmaxf(m, v);"])]
    total = once("0.0f", [load, *pre, "a = a + expf(v - m);"], S)
    use = [*pre, "v = expf(v - m) / a;", *post]
    each = f"for (int k = 0; k < {S}; ++k)"
    return Kernel(
        spec=spec_of(p.pre, "softmax", p.post),
        forward=[*torch_lines(p.pre), "v = torch.softmax(v, 1)", *torch_lines(p.post)],
        inputs=[(S, S)],
        output=(S, S),
        threads=S,
        prefix=line_prefix("r", S),
        naive=[*most, *loop(each, [*total, load_k, *use, f"o[r * {S} + k] = v;"])],
        good=[*most, *total, *loop(every, [load, *use, f"o[r * {S} + j] = v;"])],
    )


def scan(p: Problem) -> Kernel:
    start, add = FOLD[p.core]
    body = [ROW, *statements(p.pre), add]
    post = statements(p.post)
    torch = {
        "sum": "v.cumsum(1)",
        "max": "v.cummax(1).values",
        "min": "v.cummin(1).values",
    }[p.core]
    return Kernel(
        spec=spec_of(p.pre, "cum" + p.core, p.post),
        forward=[*torch_lines(p.pre), f"v = {torch}", *torch_lines(p.post)],
        inputs=[(N, N)],
        output=(N, N),
        threads=N,
        prefix=line_prefix("r"),
        naive=loop(EACH, [f"float a = {start};",
                          *loop("for (int j = 0; j <= k; ++j)", body),
                          "float v = a;", *post, f"o[r * {N} + k] = v;"]),
        good=once(start, [*body, "v = a;", *post, f"o[r * {N} + j] = v;"]),
    )  # fmt: skip


def window(p: Problem) -> Kernel:
    """`core` is the fold and the reach to either side: sum2, max1."""
    kind, reach = p.core[:-1], int(p.core[-1])
    start, add = FOLD[kind]
    load = [f"float v = x[r * {W} + j];", *statements(p.pre)]
    near = f"for (int j = c - {reach}; j <= c + {reach}; ++j)"
    taken = f"if (j >= c - {reach} && j <= c + {reach})"
    inside = f"if (j >= 0 && j < {W})"
    tail = ["float v = a;", *statements(p.post), "o[i] = v;"]
    pad = {"sum": "0.0", "max": "-3e38", "min": "3e38"}[kind]
    torch = (
        f"torch.nn.functional.pad(v, ({reach}, {reach}), value={pad}).unfold(1, {2 * reach + 1}, 1)"
    )
    take = "sum(-1)" if kind == "sum" else f"a{kind}(-1)"
    return Kernel(
        spec=spec_of(p.pre, f"win{kind}{reach}", p.post),
        forward=[*torch_lines(p.pre), f"v = {torch}", f"v = v.{take}", *torch_lines(p.post)],
        inputs=[(H, W)],
        output=(H, W),
        threads=H * W,
        prefix=element_prefix(H, W),
        naive=[*once(start, [*load, *loop(taken, [add])], W), *tail],
        good=[f"float a = {start};", *loop(near, loop(inside, [*load, add])), *tail],
    )


BUILD = {
    "chain": chain,
    "pair": binary,
    "row": binary,
    "column": binary,
    "transpose": transpose,
    "gather": gather,
    "rowfold": fold,
    "colfold": fold,
    "dot": dot,
    "matmul": matmul,
    "normalise": normalise,
    "softmax": softmax,
    "scan": scan,
    "window": window,
}
