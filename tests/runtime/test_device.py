"""Devices by name, precision and threads."""

from __future__ import annotations

import re

import pytest
import torch

from homefold.errors import ConfigError
from homefold.runtime.device import one_thread, resolve_device, resolve_precision

CPU = torch.device("cpu")


class TestDevice:
    def test_names(self):
        assert resolve_device("cpu") == CPU
        assert resolve_device(CPU) == CPU
        if not torch.cuda.is_available():
            assert resolve_device("auto").type in ("cpu", "mps")
            with pytest.raises(ConfigError, match="torch sees 0 CUDA devices"):
                resolve_device("cuda")

    @pytest.mark.parametrize("name", ["tpux", "", "meta", "xpu", "vulkan", "hpu", "cuda:-1", "cpu:", "\udcff", "None"])
    def test_what_torch_may_know_but_nothing_can_be_computed_on_is_no_device(self, name):
        with pytest.raises(
            ConfigError, match=rf"there is no device {re.escape(repr(name))} to compute on; choose auto"
        ):
            resolve_device(name)

    def test_a_device_of_torch_is_checked_like_a_name(self):
        with pytest.raises(ConfigError, match="there is no device 'meta'"):
            resolve_device(torch.device("meta"))
        with pytest.raises(ConfigError, match="there is no device 'None'"):
            resolve_device(None)

    @pytest.mark.parametrize("name", ["cuda:99", "cpu:1", "mps:1"])
    def test_a_number_beyond_the_last_device_is_refused(self, name):
        with pytest.raises(ConfigError, match=f"device {name} is not there: torch sees"):
            resolve_device(name)

    def test_precision(self):
        assert resolve_precision("auto", CPU) == torch.float32
        assert resolve_precision("bfloat16", CPU) == torch.bfloat16
        with pytest.raises(ConfigError, match="float16 training needs a GPU"):
            resolve_precision("float16", CPU)

    def test_one_thread_is_given_back(self):
        torch.set_num_threads(2)
        try:
            with one_thread(CPU):
                assert torch.get_num_threads() == 1
            assert torch.get_num_threads() == 2
        finally:
            torch.set_num_threads(1)
