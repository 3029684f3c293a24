"""f_θ: networks, the pairwise metric loss, and stage 1 of training."""

from homefold.config.backbones import backbone_named
from homefold.config.features import FeatureConfig
from homefold.features.backbones import build_backbone, list_backbones
from homefold.features.extraction import extract_features
from homefold.features.loss import pairwise_metric_loss, pairwise_metric_loss_bound
from homefold.features.network import FeatureNet, build_feature_net
from homefold.features.training import FeatureReport, TrainedFeatures, train_features

__all__ = [
    "FeatureConfig",
    "FeatureNet",
    "FeatureReport",
    "TrainedFeatures",
    "backbone_named",
    "build_backbone",
    "build_feature_net",
    "extract_features",
    "list_backbones",
    "pairwise_metric_loss",
    "pairwise_metric_loss_bound",
    "train_features",
]
