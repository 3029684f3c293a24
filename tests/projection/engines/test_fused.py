"""What the kernel needs of a chip, against what the compiler says; it compiles for a GPU without having one."""

from __future__ import annotations

import pytest
import torch

from homefold.config.search import SearchConfig
from homefold.manifold.base import mlp
from homefold.projection.engines.fused import STEP_RULES, STOPPING_RULES, side, tile_for, why_not_on_chip

HOPPER, ADA = 232_448, 101_376


@pytest.mark.parametrize(
    ("decode", "precision", "words"),
    [
        (mlp(32, 128, 128, 256), "high", ""),
        (mlp(32, 128, 128, 4096), "medium", ""),
        (mlp(32, 128, 128, 256), "highest", "full float32"),
        (mlp(32, 256, 256, 256), "medium", "do not fit"),
        (mlp(4, 8, 8, 8, 8), "high", "3 hidden layers"),
        (torch.nn.Sequential(torch.nn.Linear(2, 2)), "high", "not an MLP"),
    ],
)
def test_what_the_kernel_can_hold(decode, precision, words):
    reason = why_not_on_chip(decode, SearchConfig(precision=precision), HOPPER)
    assert words in reason
    assert bool(words) == bool(reason)


def test_a_smaller_chip_holds_less():
    assert "do not fit" in why_not_on_chip(mlp(32, 128, 128, 256), SearchConfig(precision="high"), ADA)


def compiled_bytes(widths: tuple[int, ...], config: SearchConfig) -> int:
    """Shared memory of the kernel, compiled for compute capability 9.0."""
    triton = pytest.importorskip("triton")
    compiler = pytest.importorskip("triton.backends.compiler")
    from homefold.projection.engines import kernel

    pointers = {name: "*fp32" for name in kernel._search.arg_names if name.endswith("_ptr")}
    pointers |= {"w1_ptr": "*bf16", "w2_ptr": "*bf16", "gram_ptr": "*bf16", "steps_ptr": "*i32"}
    numbers = dict.fromkeys(("rows", "starts", "steps"), "i32")
    numbers |= dict.fromkeys(("rate", "momentum", "slope"), "fp32")
    k, *hidden = (side(width) for width in widths)
    tile = tile_for(config)
    constants = {
        "BLOCK": tile.rows,
        "K": k,
        "H1": hidden[0],
        "H": hidden[-1],
        "DEPTH": len(hidden),
        "WINDOW": config.window,
        "STEP": STEP_RULES[config.step],
        "STOP": STOPPING_RULES[config.stop],
        "PARTS": kernel._PARTS[config.resolved_precision],
    }
    signature = pointers | numbers | dict.fromkeys(constants, "constexpr")
    source = triton.compiler.ASTSource(fn=kernel._search, signature=signature, constexprs=constants)
    target = compiler.GPUTarget("cuda", 90, 32)
    return triton.compile(
        source, target=target, options={"num_warps": tile.warps, "enable_fp_fusion": True}
    ).metadata.shared


@pytest.mark.slow
@pytest.mark.parametrize(("widths", "precision"), [((32, 128, 128), "high"), ((60, 250, 120), "medium")])
def test_what_is_said_to_fit_does(widths, precision):
    found = {}
    for stop in ("fixed", "elbow"):
        config = SearchConfig(stop=stop, precision=precision)
        needed = compiled_bytes(widths, config)
        found[stop] = needed
        for chip in (HOPPER, ADA):
            assert needed <= chip or why_not_on_chip(mlp(*widths, 256), config, chip)
    assert max(found.values()) <= HOPPER


def test_sides_are_powers_of_two_from_sixteen():
    assert [side(width) for width in (1, 16, 17, 100, 128)] == [16, 16, 32, 128, 128]
    assert tile_for(SearchConfig(step="gradient")) == tile_for(SearchConfig())
