"""The Triton kernel of the `fused` engine. Imported only where it runs, since Triton exists only for some platforms."""

# Annotations are read by Triton as values here, so they must not be postponed.

import torch
import triton
import triton.language as tl

from homefold.config.search import SearchConfig
from homefold.projection.engines.fused import STEP_RULES, STOPPING_RULES, tile_for

__all__ = ["launch"]

_PARTS = {"highest": 0, "high": 2, "medium": 1}
_SMALLEST = tl.constexpr(1e-24)
_SMALLEST_LENGTH = tl.constexpr(1e-12)


@triton.jit
def _product(x, weight_high, weight_low, PARTS: tl.constexpr):
    """x @ weight, summed in float32.

    PARTS 1: factors in bfloat16. PARTS 2: both factors are sums of two bfloat16 numbers; the product of their low parts
    is too small to count. PARTS 0: factors in float32.
    """
    if PARTS == 0:
        out = tl.dot(x, weight_high, input_precision="ieee")
    else:
        high = x.to(tl.bfloat16)
        if PARTS == 2:
            low = (x - high.to(tl.float32)).to(tl.bfloat16)
            out = tl.dot(low, weight_high)
            out = tl.dot(high, weight_low, out)
            out = tl.dot(high, weight_high, out)
        else:
            out = tl.dot(high, weight_high)
    return out


@triton.jit
def _leaky(x, slope):
    return tl.where(x > 0, x, slope * x)


@triton.jit
def _signs(h, PARTS: tl.constexpr):
    """h in the fewest registers that still tell where it is positive."""
    kept = h
    if PARTS != 0:
        kept = h.to(tl.bfloat16)
    return kept


@triton.jit
def _forward(u, w1h, w1l, b1, w2h, w2l, b2, gh, gl, gb, bb, p, c, slope, DEPTH: tl.constexpr, PARTS: tl.constexpr):
    """The signs of the hidden outputs, q, the cosine and 1/|G| at latents u."""
    h = _leaky(_product(u, w1h, w1l, PARTS) + b1[None, :], slope)
    signs1 = _signs(h, PARTS)
    if DEPTH == 2:
        h = _leaky(_product(h, w2h, w2l, PARTS) + b2[None, :], slope)
    signs = _signs(h, PARTS)
    q = _product(h, gh, gl, PARTS) + gb[None, :]
    square = tl.sum(h * (q + gb[None, :]), axis=1) + bb
    inverse = 1 / tl.sqrt(tl.maximum(square, _SMALLEST))
    cosine = (tl.sum(h * p, axis=1) + c) * inverse
    return signs1, signs, q, cosine, inverse


@triton.jit
def _backward(
    signs1, signs, q, p, cosine, inverse, w1th, w1tl, w2th, w2tl, slope, DEPTH: tl.constexpr, PARTS: tl.constexpr
):
    """∂L_S/∂u."""
    g = (cosine * inverse * inverse)[:, None] * q - inverse[:, None] * p
    g = tl.where(signs > 0, g, slope * g)
    if DEPTH == 2:
        g = _product(g, w2th, w2tl, PARTS)
        g = tl.where(signs1 > 0, g, slope * g)
    return _product(g, w1th, w1tl, PARTS)


# Compiled once for any number of rows: one image alone is no other kernel.
@triton.jit(do_not_specialize=["rows"])
def _search(
    start_ptr, p_ptr, c_ptr, w1_ptr, b1_ptr, w2_ptr, b2_ptr, gram_ptr, gb_ptr, bb_ptr,
    found_ptr, steps_ptr, before_ptr, after_ptr, losses_ptr, latents_ptr,
    rows, starts, steps, rate, momentum, slope,
    BLOCK: tl.constexpr, K: tl.constexpr, H1: tl.constexpr, H: tl.constexpr, DEPTH: tl.constexpr,
    WINDOW: tl.constexpr, STEP: tl.constexpr, STOP: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = row < rows
    row = tl.minimum(row, rows - 1)
    row64 = row.to(tl.int64)
    k, i1, i = tl.arange(0, K), tl.arange(0, H1), tl.arange(0, H)

    at = k[:, None] * H1 + i1[None, :]
    w1h, w1l = tl.load(w1_ptr + at), tl.load(w1_ptr + K * H1 + at)
    w1th, w1tl = tl.trans(w1h), tl.trans(w1l)
    b1 = tl.load(b1_ptr + i1)
    if DEPTH == 2:
        at = i1[:, None] * H + i[None, :]
        w2h, w2l = tl.load(w2_ptr + at), tl.load(w2_ptr + H1 * H + at)
        w2th, w2tl = tl.trans(w2h), tl.trans(w2l)
    else:
        w2h, w2l, w2th, w2tl = w1h, w1l, w1th, w1tl
    b2 = tl.load(b2_ptr + i)
    at = i[:, None] * H + i[None, :]
    gh, gl = tl.load(gram_ptr + at), tl.load(gram_ptr + H * H + at)
    gb = tl.load(gb_ptr + i)
    bb = tl.load(bb_ptr)
    sample = (row // starts).to(tl.int64)
    p = tl.load(p_ptr + sample[:, None] * H + i[None, :])
    c = tl.load(c_ptr + sample)
    u = tl.load(start_ptr + row64[:, None] * K + k[None, :])

    mean = tl.zeros((BLOCK, K), tl.float32)
    square = tl.zeros((BLOCK, K), tl.float32)
    chosen = u
    taken = tl.zeros((BLOCK,), tl.int32)
    if STOP == 1:
        taken = taken + 1
    power1 = 1.0
    power2 = 1.0
    # the elbow's last two smoothed losses and its sharpest bend
    older = tl.zeros((BLOCK,), tl.float32)
    newer = tl.zeros((BLOCK,), tl.float32)
    best = tl.zeros((BLOCK,), tl.float32)
    after = tl.zeros((BLOCK,), tl.float32)
    if STOP == 1:
        best = best - float("inf")
    # One more turn measures where the last step of a fixed search led.
    turns = tl.maximum(steps, 1)
    if STOP == 0:
        turns = steps + 1
    running = True
    step = 0
    while running:
        signs1, signs, q, cosine, inverse = _forward(
            u, w1h, w1l, b1, w2h, w2l, b2, gh, gl, gb, bb, p, c, slope, DEPTH, PARTS
        )
        loss = 1 - cosine
        if step == 0:
            tl.store(before_ptr + row64, loss, mask=inside)
        if STOP == 0:
            after = loss
        g = _backward(signs1, signs, q, p, cosine, inverse, w1th, w1tl, w2th, w2tl, slope, DEPTH, PARTS)

        if STEP == 0:
            moved = u - rate * g
        if STEP == 1:
            length = tl.maximum(tl.sqrt(tl.sum(g * g, axis=1)), _SMALLEST_LENGTH)
            relative = g * (tl.sqrt(tl.sum(u * u, axis=1)) / length)[:, None]
            mean = momentum * mean + relative
            moved = u - rate * (relative + momentum * mean)
        if STEP == 2:
            power1 *= 0.9
            power2 *= 0.999
            mean = 0.9 * mean + 0.1 * g
            square = 0.999 * square + 0.001 * g * g
            moved = u - (rate / (1 - power1)) * mean / (tl.sqrt(square / (1 - power2)) + 1e-8)
        if STOP == 0:
            # The last turn only measures. (A copy of u from before the step came out of the compiler as the start.)
            moved = tl.where(step < steps, moved, u)
        u = moved

        if STOP == 1:
            HALF: tl.constexpr = WINDOW // 2
            KEPT: tl.constexpr = WINDOW // 2 + 2
            # Rings in device memory: any thread may have written what another reads.
            tl.debug_barrier()
            tl.store(losses_ptr + (step % WINDOW) * rows + row64, loss, mask=inside)
            tl.store(latents_ptr + ((step % KEPT) * rows + row64[:, None]) * K + k[None, :], u, mask=inside[:, None])
            tl.debug_barrier()
            if step >= WINDOW - 1:
                total = tl.zeros((BLOCK,), tl.float32)
                for offset in tl.static_range(WINDOW):
                    total += tl.load(losses_ptr + ((step + 1 + offset) % WINDOW) * rows + row64)
                smooth = total / WINDOW
                if step >= WINDOW + 1:
                    bend = smooth - 2 * newer + older
                    better = bend > best
                    best = tl.where(better, bend, best)
                    taken = tl.where(better, step - HALF, taken)
                    slot = (step - HALF - 1) % KEPT
                    past = tl.load(latents_ptr + (slot * rows + row64[:, None]) * K + k[None, :])
                    chosen = tl.where(better[:, None], past, chosen)
                    reached = tl.load(losses_ptr + ((step - HALF) % WINDOW) * rows + row64)
                    after = tl.where(better, reached, after)
                older = newer
                newer = smooth

        step += 1
        running = step < turns
    if STOP == 0:
        taken = taken + steps
        chosen = u

    tl.store(found_ptr + row64[:, None] * K + k[None, :], chosen, mask=inside[:, None])
    tl.store(steps_ptr + row64, taken, mask=inside)
    tl.store(after_ptr + row64, after, mask=inside)


def launch(
    starts: torch.Tensor,
    p: torch.Tensor,
    c: torch.Tensor,
    weights: tuple[torch.Tensor, ...],
    slots: int,
    config: SearchConfig,
    slope: float,
    depth: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Run the kernel: u* `(rows, k)`, steps to it, loss at the start and loss at u*, `(rows,)` each.

    Args:
        starts: `(rows, k)` latents; k and h are powers of two.
        p: `(samples, h)`, and
        c: `(samples,)`: the samples' `MLPDecoder.target_terms`.
        weights: first weight `(2, k, h1)`, its bias, second weight `(2, h1, h)`, its bias, gram `(2, h, h)`, its bias
            and |b|² `(1,)`; the matrices as high and low part in bfloat16, or twice whole in float32 for the highest
            precision, which only Triton's interpreter runs.
        slots: rows for each sample.
        config: rules and number of steps.
        slope: of the LeakyReLU.
        depth: hidden layers, 1 or 2.
    """
    rows, k = starts.shape
    found = torch.empty_like(starts)
    steps = torch.empty(rows, dtype=torch.int32, device=starts.device)
    before, after = (torch.empty(rows, device=starts.device) for _ in range(2))
    elbow = config.stop == "elbow"
    losses = torch.empty(config.window * rows if elbow else 1, device=starts.device)
    latents = torch.empty((config.window // 2 + 2) * rows * k if elbow else 1, device=starts.device)
    tile = tile_for(config)
    _search[(triton.cdiv(rows, tile.rows),)](
        starts, p, c, *weights, found, steps, before, after, losses, latents,
        rows, slots, config.steps, config.rate, config.momentum, slope,
        BLOCK=tile.rows, K=k, H1=weights[0].shape[2], H=p.shape[1], DEPTH=depth, WINDOW=config.window,
        STEP=STEP_RULES[config.step], STOP=STOPPING_RULES[config.stop], PARTS=_PARTS[config.resolved_precision],
        num_warps=tile.warps, enable_fp_fusion=True,
    )  # fmt: skip
    return found, steps, before, after
