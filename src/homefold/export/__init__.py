"""Models that leave Python's torch: ONNX."""

from __future__ import annotations

from homefold.export.onnx import Exported, export_onnx

__all__ = ["Exported", "export_onnx"]
