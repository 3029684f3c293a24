"""Every method behind the one interface that the benchmark drives."""

from homefold.methods.base import Answers, ClassifierNetwork, Method, MethodInfo, TestTimeMethod, TrainedMethod
from homefold.methods.origin import code_key
from homefold.methods.registry import (
    find_method,
    list_methods,
    register_method,
    register_test_time_method,
    wrapped_by_default,
)
from homefold.methods.training.deep_all import DeepAllMethod, deep_all_config
from homefold.methods.training.home import HomeMethod
from homefold.methods.training.learner import (
    Batch,
    Learner,
    LearningTask,
    ParameterGroup,
    TrainingImages,
    reverse_gradient,
)
from homefold.methods.training.learner_method import LearnerMethod, TrainedLearner, tunable
from homefold.stages.task import ImageSet, TaskKey, TrainingTask

__all__ = [
    "Answers",
    "Batch",
    "ClassifierNetwork",
    "DeepAllMethod",
    "HomeMethod",
    "ImageSet",
    "Learner",
    "LearnerMethod",
    "LearningTask",
    "Method",
    "MethodInfo",
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
    "register_method",
    "register_test_time_method",
    "reverse_gradient",
    "tunable",
    "wrapped_by_default",
]
