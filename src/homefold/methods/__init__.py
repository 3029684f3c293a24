"""Every method behind the one interface that the benchmark drives."""

from homefold.methods.base import (
    Answers,
    ClassifierNetwork,
    ImageSet,
    Method,
    MethodInfo,
    TaskKey,
    TestTimeMethod,
    TrainedMethod,
    TrainingTask,
)
from homefold.methods.deep_all import DeepAll, DeepAllMethod, deep_all_config
from homefold.methods.home import HomeMethod
from homefold.methods.registry import find_method, list_methods, register_method, register_test_time_method

__all__ = [
    "Answers",
    "ClassifierNetwork",
    "DeepAll",
    "DeepAllMethod",
    "HomeMethod",
    "ImageSet",
    "Method",
    "MethodInfo",
    "TaskKey",
    "TestTimeMethod",
    "TrainedMethod",
    "TrainingTask",
    "deep_all_config",
    "find_method",
    "list_methods",
    "register_method",
    "register_test_time_method",
]
