"""Every method behind the one interface that the benchmark drives."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from homefold.methods.base import Answers, ClassifierNetwork, Method, TestTimeMethod, TrainedMethod, code_key
    from homefold.methods.registry import (
        MethodInfo,
        find_method,
        list_methods,
        method_named,
        register_method,
        register_test_time_method,
        wrapped_by_default,
    )
    from homefold.methods.training.deep_all import DeepAllMethod, deep_all_config
    from homefold.methods.training.learner import (
        Batch,
        Learner,
        LearningTask,
        ParameterGroup,
        TrainingImages,
        reverse_gradient,
    )
    from homefold.methods.training.learner_method import LearnerMethod, TrainedLearner, tunable
    from homefold.methods.training.paper import PaperMethod
    from homefold.stages.task import ImageSet, TaskKey, TrainingTask

# Put off: methods need torch, and a list of them does not.
_PLACES = ("registry", "base", "training.learner", "training.learner_method", "training.deep_all", "training.paper")

__all__ = [
    "Answers",
    "Batch",
    "ClassifierNetwork",
    "DeepAllMethod",
    "ImageSet",
    "Learner",
    "LearnerMethod",
    "LearningTask",
    "Method",
    "MethodInfo",
    "PaperMethod",
    "ParameterGroup",
    "TaskKey",
    "TestTimeMethod",
    "TrainedLearner",
    "TrainedMethod",
    "TrainingImages",
    "TrainingTask",
    "code_key",
    "deep_all_config",
    "find_method",
    "list_methods",
    "method_named",
    "register_method",
    "register_test_time_method",
    "reverse_gradient",
    "tunable",
    "wrapped_by_default",
]


def __getattr__(name: str) -> Any:
    for place in _PLACES if name in __all__ else ():
        module = import_module(f"{__name__}.{place}")
        if hasattr(module, name):
            return getattr(module, name)
    raise AttributeError(f"module 'homefold.methods' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
