"""The estimator that strings the stages together: images of several source domains in, answers for unseen ones out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from homefold.config import HomefoldConfig, config_to_dict, preset_config
from homefold.data.arrays import dataset_from_arrays, images_from_array
from homefold.data.dataset import DomainDataset
from homefold.data.decoding import one_ahead
from homefold.data.folder import find_images, load_images
from homefold.data.images import resize_images
from homefold.data.names import written
from homefold.data.registry import domain_names, load_dataset
from homefold.data.splits import selection_split
from homefold.device import deterministic_algorithms, resolve_device
from homefold.errors import ConfigError, DataError, ModelFileError
from homefold.evaluation.records import versions
from homefold.feature_model import FeatureModel, fit_feature_model
from homefold.features import FeatureNet, build_feature_net, train_features
from homefold.features.extraction import extract_features, extract_views
from homefold.features.network import FeatureSpace
from homefold.features.style_variation import require_style_layers
from homefold.files import plain_json
from homefold.manifold import FeatureGroups, build_manifold
from homefold.model_card import model_card
from homefold.model_description import ImagesDescription, describe_images
from homefold.model_folder import read_model_folder, write_model_folder
from homefold.module_state import rebuilt
from homefold.predictions import Predictions, rows_named
from homefold.processes import current_processes
from homefold.progress import ProgressReporter, RichReporter, SilentReporter
from homefold.projection import Projection, ProjectionConfig
from homefold.rehearsal import rehearsed_features, require_rehearsable
from homefold.style import StyleModel, fit_style, named_blocks, require_channels, style_modules, styled_net
from homefold.work_folder import WorkFolder

__all__ = ["CUSTOM", "Homefold", "ImageData"]

ImageData = DomainDataset | np.ndarray | torch.Tensor | str | Path | Sequence[str | Path]

CUSTOM = "custom"
"""The backbone of a model whose network is the user's own."""
_DECODED_AT_ONCE = 512


class Homefold:
    """A classifier for images from domains it has never seen.

    Args:
        config: every setting; None takes the preset's.
        preset: `default` (a pretrained ResNet-18), `small` (a small network from scratch, for CPUs), `thorough`,
            `small-thorough` (see `preset_config`) or `paper`.
        backbone: a network of your own, any module that turns `(n, 3, h, w)` images into `(n, d)` features; replaces
            the configured one. It must be given to `load` again, since a model folder holds no code.
        device: `auto`, `cpu`, `cuda`, `cuda:N` or `mps`.
        deterministic: use only algorithms that give the same bytes every time, also on CUDA (slower there).
        verbose: show progress on standard error.
        reporter: where progress goes; overrides `verbose`.

    Example:
        >>> from homefold import Homefold
        >>> from homefold.data import load_digits_mini
        >>> digits = load_digits_mini()
        >>> model = Homefold(preset="small").fit(digits, holdout="street")       # doctest: +SKIP
        >>> model.score(digits.only("street"))                                   # doctest: +SKIP
    """

    def __init__(
        self,
        config: HomefoldConfig | None = None,
        *,
        preset: str = "default",
        backbone: nn.Module | None = None,
        device: str | torch.device = "auto",
        deterministic: bool = False,
        verbose: bool = False,
        reporter: ProgressReporter | None = None,
    ) -> None:
        self.config = config or preset_config(preset)
        self.device = resolve_device(device)
        self.deterministic = deterministic
        self.reporter: ProgressReporter = reporter or (RichReporter() if verbose else SilentReporter())
        self._custom_backbone = backbone
        if backbone is not None:
            self.config = replace(self.config, features=replace(self.config.features, backbone=CUSTOM, weights="none"))
        elif self.config.features.backbone == CUSTOM:
            raise ConfigError("this configuration was made with a network of your own; pass it again as backbone=.")
        self._net: FeatureNet | None = None
        self._model: FeatureModel | None = None
        self._style: StyleModel | None = None
        self._styled: FeatureNet | None = None
        self._domains: tuple[str, ...] = ()
        self._reports: dict[str, Any] = {}

    @property
    def is_fitted(self) -> bool:
        """Whether it can predict."""
        return self._model is not None

    @property
    def net(self) -> FeatureNet:
        """f."""
        if self._net is None:
            raise ConfigError("this model has not been fitted: call fit, or Homefold.load a saved one.")
        return self._net

    @property
    def feature_model(self) -> FeatureModel:
        """Manifold, classifier and projection."""
        if self._model is None:
            raise ConfigError("this model has not been fitted: call fit, or Homefold.load a saved one.")
        return self._model

    @property
    def class_names(self) -> tuple[str, ...]:
        """One name a class, in the order of the probabilities."""
        return self.feature_model.class_names

    @property
    def source_domains(self) -> tuple[str, ...]:
        """What it was trained on."""
        return self._domains

    @property
    def reports(self) -> dict[str, Any]:
        """What each stage measured on held-out source images."""
        return self._reports

    def fit(
        self,
        data: ImageData,
        labels: Any = None,
        domains: Any = None,
        *,
        holdout: str | Sequence[str] = (),
        skip_bad: bool = False,
        work_dir: Path | str | None = None,
        on_epoch: Callable[[dict[str, float]], None] | None = None,
    ) -> Homefold:
        """Train all stages on the source domains.

        Args:
            data: a `DomainDataset`, the path of a folder `root/domain/class/image` or the name of a dataset, or an
                array of images with `labels` and `domains`.
            labels: for arrays: one label an image.
            domains: for arrays: one domain an image.
            holdout: domains to leave out; training never sees them.
            skip_bad: leave out images that cannot be read instead of stopping.
            work_dir: keep checkpoints there; a killed fit that is started again with the same arguments goes on from
                them and gives the same model.
            on_epoch: called with the figures of each epoch of stage 1.
        """
        self.config.require_consistent()
        net = self._build_net(self._size, pretrained=True)
        searched_dim = net.backbone_dim if self._space == "backbone" else net.feature_dim
        # All complain before any image is decoded.
        require_style_layers(self.config.features, net.backbone)
        self._name_style_blocks(net)
        build_manifold(self.config.manifold, searched_dim)
        self.config.projection.require_manifold(self.config.manifold.per)
        dataset = self._source_dataset(data, labels, domains, holdout, skip_bad)
        require_rehearsable(self.config.manifold, dataset)
        train, held_out = selection_split(dataset, self.config.features.held_out, self.config.seed)
        checkpoint = self._open_work_dir(work_dir, dataset) if work_dir is not None else None
        config = self.config
        with deterministic_algorithms(self.deterministic):
            trained = train_features(
                config.features,
                net,
                dataset,
                train,
                held_out,
                seed=config.seed,
                device=self.device,
                checkpoint=checkpoint,
                reporter=self.reporter,
                on_epoch=on_epoch,
            )
            net = trained.net.requires_grad_(False)
            model = self._fit_feature_model(net, dataset, train, held_out, checkpoint)
            style = self._fit_style(net, dataset, train, held_out)
        self._net, self._model, self._domains = net, model, dataset.domain_names
        self._set_style(style)
        self._reports = {
            "images": {
                "trained_on": len(train),
                "held_out": len(held_out),
                "skipped": [[written(text) for text in item] for item in dataset.skipped],
            },
            "features": trained.report.as_dict(),
            "manifold": model.manifold.report.as_dict(),
            "classifier": {"held_out_accuracy": model.classifier.held_out_accuracy},
        }
        if style is not None:
            self._reports["style"] = style.reports()
        return self

    def _fit_feature_model(
        self,
        net: FeatureNet,
        dataset: DomainDataset,
        train: np.ndarray,
        held_out: np.ndarray,
        checkpoint: Path | None,
    ) -> FeatureModel:
        """Stages 2 and 3 on the features of the source images, after the networks that rehearse, if any."""
        config = self.config
        z = self._extract(net, dataset.images)
        y = torch.from_numpy(dataset.labels)
        searched, pooled, head = z, None, self._head(net)
        if head is not None:
            searched = extract_features(net, dataset.images, self.device, space="backbone")
            pooled = searched[train], searched[held_out]
        rehearsed = rehearsed_features(
            config,
            dataset,
            searched,
            train,
            held_out,
            build=lambda: self._build_net(self._size, pretrained=True),
            device=self.device,
            checkpoint=checkpoint,
            reporter=self.reporter,
        )
        return fit_feature_model(
            z[train],
            y[train],
            z[held_out],
            y[held_out],
            class_names=dataset.class_names,
            manifold_config=config.manifold,
            classifier_config=config.classifier,
            projection=config.projection,
            normalise=config.normalise_features,
            seed=config.seed,
            device=self.device,
            domains=_domain_groups(dataset, train, held_out),
            reporter=self.reporter,
            pooled=pooled,
            head=head,
            rehearsed=rehearsed,
        )

    def _name_style_blocks(self, net: FeatureNet) -> None:
        """Let the settings name the blocks of this network after which styles are moved; refuse those it has not."""
        style = named_blocks(self.config.style, net.backbone, self._size)
        if self.config.style.blocks and not style.blocks:
            self.reporter.message(
                "Styles are left as they are: this network has no early blocks that give fine feature maps. Where it "
                "has others, name them by --style.blocks."
            )
        style_modules(net.backbone, style.blocks)
        self.config = replace(self.config, style=style)

    def _fit_style(
        self, net: FeatureNet, dataset: DomainDataset, train: np.ndarray, held_out: np.ndarray
    ) -> StyleModel | None:
        """The source styles, where the settings ask for them."""
        if not self.config.style.blocks:
            return None
        return fit_style(
            self.config.style,
            net,
            dataset.images,
            train,
            held_out,
            domains=dataset.domains,
            seed=self.config.seed,
            device=self.device,
            reporter=self.reporter,
        )

    def _set_style(self, style: StyleModel | None) -> None:
        """Keep the source styles, and the network in which an image's style is brought to them."""
        self._style = style
        self._styled = None if style is None or self._net is None else styled_net(self._net, style)

    def _source_dataset(
        self, data: ImageData, labels: Any, domains: Any, holdout: str | Sequence[str], skip_bad: bool
    ) -> DomainDataset:
        size, resize = self._size, self.config.preprocessing.resize
        left_out = (holdout,) if isinstance(holdout, str) else tuple(holdout)
        if isinstance(data, DomainDataset):
            dataset = data
        elif isinstance(data, str | Path):
            # Held-out domains are not even decoded: what trains cannot reach their images.
            kept = _without(domain_names(data), left_out, str(data))
            dataset = load_dataset(
                data, size=size, resize=resize, skip_bad=skip_bad, domains=kept, reporter=self.reporter
            )
            left_out = ()
        elif labels is None or domains is None:
            raise DataError("an array of images needs labels and domains beside it: fit(images, labels, domains).")
        else:
            dataset = dataset_from_arrays(data, labels, domains)
        if left_out:
            dataset = dataset.only(*_without(dataset.domain_names, left_out, dataset.name))
        if len(np.unique(dataset.labels)) < 2:
            raise DataError(f"{dataset.name} has images of one class only; a classifier needs at least two.")
        if len(dataset.domain_names) == 1:
            self.reporter.message(
                f"One source domain only ({dataset.domain_names[0]}): the features learn to ignore what varies inside "
                f"it, not what differs between domains. Add a second domain if you can."
            )
        if dataset.image_size != size:
            dataset = replace(dataset, images=resize_images(dataset.images, size, resize))
        return dataset

    @property
    def _space(self) -> FeatureSpace:
        return self.config.manifold.space

    def _head(self, net: FeatureNet) -> nn.Module | None:
        """What stands between the manifold and the classifier."""
        return net.head if self._space == "backbone" else None

    @property
    def _size(self) -> tuple[int, int]:
        side = self.config.preprocessing.image_size
        return side, side

    def _build_net(self, image_size: tuple[int, int], *, pretrained: bool) -> FeatureNet:
        return build_feature_net(
            self.config.features,
            image_size,
            normalisation=self.config.preprocessing.normalisation,
            seed=self.config.seed,
            pretrained=pretrained,
            backbone=self._custom_backbone,
        )

    def _open_work_dir(self, work_dir: Path | str, dataset: DomainDataset) -> Path:
        """The checkpoint file in `work_dir`, once it is certain that it belongs to this very fit."""
        work = WorkFolder(work_dir)
        if not current_processes().is_first:
            return work.checkpoint
        config = config_to_dict(self.config)
        # Later stages are trained anew in seconds, so their settings may change between two attempts.
        decisive = ("seed", "preprocessing", "features")
        identity = {
            **plain_json({name: config[name] for name in decisive}),
            "data": dataset.fingerprint(),
            "deterministic": self.deterministic,
        }
        found = work.identity()
        if found is None:
            work.begin(identity)
            return work.checkpoint
        differing = [key for key in identity if found.get(key) != identity[key]]
        if differing:
            raise ConfigError(
                f"{work.folder} holds an unfinished fit with another {' and '.join(differing)}; give the same "
                f"arguments to go on with it, or delete that folder to start anew."
            )
        return work.checkpoint

    def features(self, data: ImageData) -> np.ndarray:
        """f's raw features `(n, d)` of images."""
        parts = [self._extract(self.net, images) for images, _ in self._image_chunks(data)]
        return torch.cat(parts).cpu().numpy()

    def searched_features(
        self, data: ImageData, *, projection: ProjectionConfig | None = None, styled: bool = True
    ) -> np.ndarray:
        """What `feature_model` takes: raw features `(n, d)` in the space of the manifold, the mean of all views.

        With the default settings they are `features`.

        Args:
            data: images, as `predict` takes them.
            projection: other settings of the views than the model's own.
            styled: after styles were brought to the sources', where the model does so; False leaves them as they are.
        """
        parts = [self._searched(images, projection, styled=styled) for images, _ in self._image_chunks(data)]
        return torch.cat(parts).cpu().numpy()

    def predict(
        self,
        data: ImageData,
        *,
        projected: bool = True,
        projection: ProjectionConfig | None = None,
        skip_bad: bool = False,
    ) -> Predictions:
        """Answers for images of any domain; those from files carry their paths.

        Args:
            data: a `DomainDataset`, an array of images, the path of an image or folder, or a list of paths.
            projected: bring each feature to the source manifold first; False is the control.
            projection: other settings of the search and of the views than the model's own.
            skip_bad: leave out files that cannot be read instead of stopping; `paths` tells which remain.
        """
        parts: list[Predictions] = []
        asked = projection or self.config.projection
        untrusted = projected and self._style is not None and not asked.answers_for_all
        for images, paths in self._image_chunks(data, skip_bad=skip_bad):
            z = self._searched(images, projection, styled=projected)
            plain = self._searched(images, projection, styled=False) if untrusted else None
            with rows_named(paths, first=sum(map(len, parts))):
                part = self.feature_model.predict(z, projected=projected, config=projection, plain=plain)
            parts.append(replace(part, paths=paths))
        return Predictions.concatenate(parts)

    def predict_proba(self, data: ImageData, *, projected: bool = True) -> np.ndarray:
        """Probabilities `(n, classes)`, columns in the order of `class_names`."""
        return self.predict(data, projected=projected).probabilities

    def project(self, data: ImageData, *, projection: ProjectionConfig | None = None) -> Projection:
        """Where each image's feature comes home to on the source manifold, in the manifold's space."""
        parts = [
            self.feature_model.project(self._searched(images, projection), projection)
            for images, _ in self._image_chunks(data)
        ]
        return Projection.concatenate(parts).cpu()

    def score(self, data: ImageData, labels: Any = None, *, projected: bool = True) -> float:
        """Accuracy on a `DomainDataset`, a dataset's name, a folder `root/domain/class/image`, or images with `labels`.

        Labels are compared by name, as `fit` was given them: the number 3 is the class called "3".
        """
        if labels is None and isinstance(data, str | Path):
            data = load_dataset(data, size=self._size, resize=self.config.preprocessing.resize, reporter=self.reporter)
        if isinstance(data, DomainDataset):
            truth = np.asarray(data.class_names, dtype=object)[data.labels].astype(str)
        elif labels is None:
            raise DataError("score needs labels, unless it is given a DomainDataset or a folder of classes.")
        else:
            truth = np.asarray(labels).astype(str)
        unknown = sorted(set(truth.tolist()) - set(self.class_names))
        if unknown:
            raise DataError(
                f"the labels {', '.join(unknown[:10])} are no classes of this model; it knows "
                f"{', '.join(self.class_names)}."
            )
        return float((self.predict(data, projected=projected).labels == truth).mean())

    def _image_chunks(self, data: ImageData, *, skip_bad: bool = False) -> Iterator[tuple[np.ndarray, tuple[str, ...]]]:
        """Decoded images of the model's size with the files they came from, a bounded number at a time."""
        size, resize = self._size, self.config.preprocessing.resize
        if isinstance(data, DomainDataset):
            images = data.images
        elif isinstance(data, np.ndarray | torch.Tensor):
            images = images_from_array(data)
        else:
            paths = find_images([data] if isinstance(data, str | Path) else list(data))
            chunks = [paths[start : start + _DECODED_AT_ONCE] for start in range(0, len(paths), _DECODED_AT_ONCE)]

            def decode(chunk: Sequence[Path]) -> tuple[np.ndarray, list[Path], list[tuple[str, str]]]:
                return load_images(chunk, size=size, resize=resize, skip_bad=skip_bad)

            # An accelerator computes while the processor decodes the next chunk.
            for decoded, kept, _ in one_ahead(decode, chunks, enabled=self.device.type != "cpu"):
                if len(decoded):
                    yield decoded, tuple(str(path) for path in kept)
            return
        for start in range(0, len(images), _DECODED_AT_ONCE):
            yield resize_images(np.asarray(images[start : start + _DECODED_AT_ONCE]), size, resize), ()

    def _extract(self, net: FeatureNet, images: np.ndarray) -> torch.Tensor:
        return extract_features(net, images, self.device)

    def _searched(
        self, images: np.ndarray, projection: ProjectionConfig | None, *, styled: bool = True
    ) -> torch.Tensor:
        views = self.config.views(projection)
        moved = styled and (projection or self.config.projection).styles
        net = self._styled if moved and self._styled is not None else self.net
        return extract_views(net, images, self.device, space=self._space, views=views)

    def save(self, path: Path | str) -> None:
        """Write the model as one folder, atomically."""
        description = {
            "kind": "images",
            "config": plain_json(config_to_dict(self.config)),
            "class_names": list(self.class_names),
            "source_domains": list(self.source_domains),
            "reports": plain_json(self._reports),
            "versions": versions(),
        }
        tensors = {"features": self.net.state_dict(), "home": self.feature_model.tensors()}
        if self._style is not None:
            tensors["style"] = self._style.state_dict()
        write_model_folder(path, tensors, description, model_card(description))

    @classmethod
    def load(
        cls,
        path: Path | str,
        *,
        backbone: nn.Module | None = None,
        device: str | torch.device = "auto",
        verbose: bool = False,
        reporter: ProgressReporter | None = None,
    ) -> Homefold:
        """Read a model that `save` wrote; nothing from the folder is executed.

        Args:
            path: the folder.
            backbone: the network of your own that the model was fitted with, if it was; its weights are replaced.
            device: where to compute.
            verbose: show progress.
            reporter: where progress goes.
        """
        tensors, content = read_model_folder(path)
        described = describe_images(content, path)
        config = described.config
        if config.features.backbone == CUSTOM and backbone is None:
            raise ConfigError(f"the model in {path} was fitted with a network of your own; pass it as backbone=.")
        model = cls(config, backbone=backbone, device=device, verbose=verbose, reporter=reporter)
        try:
            model._restore(tensors, described)
        except (ConfigError, ModelFileError) as error:
            raise ModelFileError(f"the model in {path} cannot be rebuilt: {error}") from None
        return model

    def _restore(self, tensors: dict[str, dict[str, torch.Tensor]], described: ImagesDescription) -> None:
        """Take over what was saved; what does not fit the settings is refused."""
        config, own = self.config, self._custom_backbone
        net = rebuilt(
            lambda: self._build_net(self._size, pretrained=False),
            tensors["features"],
            "the network",
            # A mask in a network of the user's own may hide by minus infinity.
            may_be_infinite=[] if own is None else [f"backbone.{name}" for name, _ in own.named_buffers()],
        )
        style = self._restored_style(net, tensors.get("style"), described)
        self._net = net.to(self.device).to(memory_format=torch.channels_last).eval()
        self._net.requires_grad_(False)
        self._model = FeatureModel.from_tensors(
            tensors["home"],
            manifold_config=config.manifold,
            classifier_config=config.classifier,
            projection=config.projection,
            normalise=config.normalise_features,
            class_names=described.class_names,
            seed=config.seed,
            manifold_report=described.reports["manifold"],
            device=self.device,
            feature_dim=net.feature_dim,
            searched_dim=net.backbone_dim if self._space == "backbone" else net.feature_dim,
            head=self._head(net),
        )
        self._domains, self._reports = described.source_domains, described.reports
        self._set_style(None if style is None else style.to(self.device).eval().requires_grad_(False))

    def _restored_style(
        self, net: FeatureNet, tensors: dict[str, torch.Tensor] | None, described: ImagesDescription
    ) -> StyleModel | None:
        """The source styles that were saved; None where the settings leave styles as they are."""
        config = self.config.style
        if bool(config.blocks) != (tensors is not None):
            raise ModelFileError("its settings and its files do not agree on whether styles are brought home.")
        if tensors is None:
            return None
        style = StyleModel.from_tensors(tensors, config, described.reports.get("style") or {}, self.config.seed)
        require_channels(style, net.backbone, self._size)
        return style


def _domain_groups(dataset: DomainDataset, train: np.ndarray, held_out: np.ndarray) -> FeatureGroups:
    domains = torch.from_numpy(dataset.domains)
    return FeatureGroups(domains[train], domains[held_out], dataset.domain_names)


def _without(names: Sequence[str], left_out: Sequence[str], where: str) -> list[str]:
    """`names` less those held out; a sentence when one does not exist or none is left."""
    for name in left_out:
        if name not in names:
            raise DataError(f"there is no domain {name!r} to hold out in {where}; it has {', '.join(names)}.")
    kept = [name for name in names if name not in left_out]
    if not kept:
        raise DataError(f"no source domain of {where} is left: all of {', '.join(names)} are held out.")
    return kept
