"""The estimator for images: several source domains in, answers for unseen ones out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import nn
from typing_extensions import TypeIs

from homefold.config import HomefoldConfig, LookConfig, SearchConfig, config_to_dict, preset_config
from homefold.config.backbones import BACKBONES
from homefold.config.grammar import saved_config
from homefold.config.manifold import MANIFOLDS
from homefold.config.normalisation import published_input
from homefold.config.recipe import DataFacts, recipe
from homefold.data.arrays import dataset_from_arrays, images_from_array
from homefold.data.dataset import DatasetKeys, DomainDataset
from homefold.data.decoding.image import resize_images
from homefold.data.decoding.many import decode_all, one_ahead
from homefold.data.given import GivenImage, given_images, is_given_image, one_of_each, paths_of
from homefold.data.index import Decodable, LoadRequest
from homefold.data.registry import (
    DataSource,
    count_images,
    domain_names,
    is_frame,
    listed_images,
    load_dataset,
)
from homefold.errors import ConfigError, DataError, ModelFileError, shown
from homefold.features import FeatureNet
from homefold.features.blocks import early_blocks, last_modules
from homefold.manifold import build_manifold
from homefold.projection import Projection
from homefold.runtime.device import deterministic_algorithms, resolve_device
from homefold.runtime.module_state import module_digest, rebuilt
from homefold.runtime.processes import current_processes
from homefold.runtime.progress import ProgressReporter, RichReporter, SilentReporter
from homefold.runtime.provenance import versions
from homefold.runtime.text import some
from homefold.stages.description import images_config
from homefold.stages.encoder import Encoder, build_net, frozen
from homefold.stages.estimate import announcement
from homefold.stages.explanation import Explanation, explained
from homefold.stages.familiar import Familiarity
from homefold.stages.feature_model import FeatureModel
from homefold.stages.features import features_ids, weights_identity
from homefold.stages.folder_memory import FolderMemory
from homefold.stages.own_code import require_registered
from homefold.stages.predictions import Predictions, rows_named
from homefold.stages.source_images import SourceImages
from homefold.stages.sources import KeptSources, keep_sources
from homefold.stages.task import ImageSet, TaskKey, TrainingTask
from homefold.stages.thumbnails import Thumbnails
from homefold.stages.train import train_stages
from homefold.stages.trained_model import TrainedModel
from homefold.store.files import plain_json
from homefold.store.model_card import model_card
from homefold.store.model_folder import ImagesDescription, read_model_folder, write_model_folder
from homefold.store.stage_store import MemoryStages, StageStore
from homefold.style import StyleModel, named_blocks, require_channels, style_modules, styled_net

if TYPE_CHECKING:
    from homefold.stages.check import DomainCheck

__all__ = ["AUTO", "CUSTOM", "Homefold", "ImageData", "auto_config"]

ImageData: TypeAlias = "DomainDataset | np.ndarray | torch.Tensor | DataSource | GivenImage | Sequence[GivenImage]"
"""What an estimator takes: decoded images, paths of images or of what lists them, or images in memory."""

AUTO = "auto"
"""The preset whose settings follow from the images."""
CUSTOM = "custom"
"""The backbone of a model whose network is the user's own."""
_DECODED_AT_ONCE = 512
_IMBALANCED = 10


class Homefold:
    """A classifier for images from domains it has never seen.

    Args:
        config: every setting; None takes the preset's. Give one of the two.
        preset: `auto` (see `auto_config`), `default` (a pretrained ResNet-18), `small` (a small network from scratch,
            for CPUs), `thorough`, `small-thorough` (see `preset_config`) or `paper`; None is `auto`, or `default` with
            a network of your own.
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
        preset: str | None = None,
        backbone: nn.Module | None = None,
        device: str | torch.device = "auto",
        deterministic: bool = False,
        verbose: bool = False,
        reporter: ProgressReporter | None = None,
    ) -> None:
        if config is not None and preset is not None:
            raise ConfigError(
                "give Homefold a config or a preset, not both; preset_config changes settings of a preset."
            )
        self._is_auto = config is None and preset in (None, AUTO) and backbone is None
        named = "default" if preset in (None, AUTO) else preset
        self._config = config or preset_config(named)
        self.device = resolve_device(device)
        self.deterministic = deterministic
        self.reporter: ProgressReporter = reporter or (RichReporter() if verbose else SilentReporter())
        self._custom_backbone = backbone
        if backbone is not None:
            features = replace(self._config.features, backbone=CUSTOM, weights="none")
            self._config = replace(self._config, features=features)
        elif self._config.features.backbone == CUSTOM:
            raise ConfigError("this configuration was made with a network of your own; pass it again as backbone=.")
        self._trained: TrainedModel | None = None
        self._sources: KeptSources | None = None
        self._thumbnails: Thumbnails | None = None

    def __repr__(self) -> str:
        """What it is, in a line."""
        config = self.config
        what = f"{config.features.backbone} at {config.preprocessing.image_size} px, manifold {config.manifold.kind}"
        known = "not fitted"
        if self.is_fitted:
            known = f"{len(self.class_names)} classes ({some(self.class_names)}) from {some(self.source_domains)}"
        return f"<{type(self).__name__}: {what}, {known}; on {self.device}>"

    def __getstate__(self) -> dict[str, Any]:
        """What a pickle holds: the settings and weights of `save`, on the CPU, and a network of the user's own.

        Progress goes on where it went if that was standard error; a reporter of the user's own is not carried.
        """
        state = {
            "device": str(self.device),
            "deterministic": self.deterministic,
            "verbose": isinstance(self.reporter, RichReporter),
            "backbone": self._custom_backbone,
            "settings": plain_json(config_to_dict(self._config)),
            "auto": self._is_auto,
        }
        if self._trained is not None:
            tensors = {
                part: {name: value.detach().cpu() for name, value in values.items()}
                for part, values in self._tensors().items()
            }
            state |= {"description": self._description(), "tensors": tensors}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over what a pickle holds; on the best device that there is, where the model's own is not."""
        try:
            device = resolve_device(state["device"])
        except ConfigError:
            device = resolve_device("auto")
        self.device, self.deterministic = device, state["deterministic"]
        self.reporter = RichReporter() if state["verbose"] else SilentReporter()
        self._custom_backbone, self._trained, self._is_auto = state["backbone"], None, False
        self._sources, self._thumbnails = None, None
        if "tensors" in state:
            self._config = images_config(state["description"], "a pickle")  # the blocks of style by their names
            self._restore(state["tensors"], state["description"])
        self._config = saved_config(HomefoldConfig, state["settings"], "the pickled model")
        self._is_auto = state["auto"]

    @property
    def config(self) -> HomefoldConfig:
        """Every setting as it was given; with the preset `auto` those that the fit arrived at."""
        return self._trained.config if self._is_auto and self._trained is not None else self._config

    @property
    def is_fitted(self) -> bool:
        """Whether it can predict."""
        return self._trained is not None

    @property
    def trained(self) -> TrainedModel:
        """All stages."""
        if self._trained is None:
            raise ConfigError("this model has not been fitted: call fit, or Homefold.load a saved one.")
        return self._trained

    @property
    def net(self) -> FeatureNet:
        """f."""
        net = self.trained.encoder.net
        assert isinstance(net, FeatureNet)
        return net

    @property
    def feature_model(self) -> FeatureModel:
        """Manifold, classifier and projection."""
        return self.trained.feature_model

    @property
    def class_names(self) -> tuple[str, ...]:
        """One name a class, in the order of the probabilities."""
        return self.feature_model.class_names

    @property
    def source_domains(self) -> tuple[str, ...]:
        """What it was trained on."""
        return self._trained.domains if self._trained is not None else ()

    @property
    def sources(self) -> KeptSources | None:
        """What is kept of source images beside thumbnails; None in models that an earlier version saved."""
        return self._sources

    def thumbnails(self) -> DomainDataset | None:
        """The training images that `fit` was asked to keep, brought to the model's size; None where it was not."""
        if self._thumbnails is None or self._sources is None:
            return None
        side, resize = self._size[0], self.config.preprocessing.resize
        return DomainDataset(
            self._thumbnails.images(side, resize),
            self._sources.labels,
            self._sources.domains,
            self.class_names,
            self.source_domains,
            name="the model's thumbnails",
        )

    @property
    def reports(self) -> dict[str, Any]:
        """What each stage measured on held-out source images."""
        return self._trained.reports if self._trained is not None else {}

    def fit(
        self,
        data: ImageData,
        labels: Any = None,
        domains: Any = None,
        *,
        holdout: str | Sequence[str] = (),
        domain_from: str = "",
        skip_bad: bool = False,
        work_dir: Path | str | None = None,
        on_epoch: Callable[[dict[str, float]], None] | None = None,
        keep_thumbnails: bool = False,
    ) -> Homefold:
        """Train all stages on the source domains.

        Args:
            data: a `DomainDataset`, what `load_dataset` takes (a folder `root/domain/class/image`, a table of paths, a
                pandas DataFrame, the name of a dataset), or an array of images, or a list of such as `predict` takes,
                with `labels` and `domains`.
            labels: for arrays and lists: one label an image.
            domains: for arrays and lists: one domain an image.
            holdout: domains to leave out; training never sees them.
            domain_from: for paths: a pattern such as `{domain}/{label}/*` that finds the domain in an image's path.
            skip_bad: leave out images that cannot be read instead of stopping.
            work_dir: keep trained stages and checkpoints there; a killed fit that is started again with the same
                arguments goes on from them and gives the same model. The `stages` of a benchmark serve as well.
            on_epoch: called with the figures of each epoch of stage 1.
            keep_thumbnails: keep up to 1,000 training images in the model, of 224 px at most (see `thumbnails`). They
                go wherever the model goes.
        """
        if self._is_auto:
            counts = _counts(data, labels, domains, holdout, domain_from)
            config = _config_for(counts, {}, self.device)
            self.reporter.message(announcement(config, int(counts.sum()), self.device, len(counts)))
            settled = Homefold(
                config,
                device=self.device,
                deterministic=self.deterministic,
                reporter=self.reporter,
            )
            settled.fit(
                data,
                labels,
                domains,
                holdout=holdout,
                skip_bad=skip_bad,
                work_dir=work_dir,
                on_epoch=on_epoch,
                domain_from=domain_from,
                keep_thumbnails=keep_thumbnails,
            )
            self._trained, self._sources, self._thumbnails = settled.trained, settled.sources, settled._thumbnails
            return self
        config = self._checked_config()
        dataset = self._source_dataset(data, labels, domains, holdout, skip_bad, domain_from)
        task = TrainingTask(
            key=TaskKey(
                source=DatasetKeys(dataset).of_labelled(np.arange(len(dataset))),
                config=config,
                network="" if self._custom_backbone is None else module_digest(self._custom_backbone),
                deterministic=self.deterministic,
            ),
            source=dataset,
            device=self.device,
            stages=_stages_in(work_dir),
            reporter=self.reporter,
            network=self._custom_backbone,
            on_epoch=on_epoch,
        )
        if task.stages.has_begun(features_ids(task.key)[0]):
            self.reporter.message(f"Going on with what was trained before in {work_dir}.")
        elif not task.stages.is_empty:
            self.reporter.message(f"Starting anew: what {work_dir} holds was trained with other settings or images.")
        with deterministic_algorithms(self.deterministic):
            trained = train_stages(task, any_manifold=True)
            # scikit-learn takes a second to import
            from homefold.stages.held_out import answer_held_out, judgement, measure_held_out

            rows, answer = answer_held_out(task, trained)
            measured = measure_held_out(task, rows, answer)
            self._sources = keep_sources(task, trained, rows, answer)
        reports = {**trained.reports, "held_out": measured}
        self._thumbnails = None
        if keep_thumbnails:
            images = np.asarray(dataset.images[self._sources.rows])
            self._thumbnails = Thumbnails.of(images, self._size[0])
            reports["thumbnails"] = self._thumbnails.facts()
        self._trained = replace(trained, reports=reports)
        if told := judgement(measured):
            self.reporter.message(told)
        return self

    def _checked_config(self) -> HomefoldConfig:
        """The settings, the blocks of style by their names in this network; complains before any image is decoded."""
        self.config.require_consistent()
        net = self._build_net(pretrained=True)
        last_modules(net.backbone, self.config.features.mix_style_layers, "mix_style_layers")
        build_manifold(self.config.manifold, net.feature_dim)
        style = named_blocks(self.config.style, net.backbone, self._size)
        if self.config.style.blocks and not style.blocks:
            self.reporter.message(
                "Styles are left as they are: this network has no early blocks that give fine feature maps. Where it "
                "has others, name them by style.blocks."
            )
        style_modules(net.backbone, style.blocks)
        self._tell_of_the_backbone(net.backbone)
        return replace(self.config, style=style)

    def _tell_of_the_backbone(self, backbone: nn.Module) -> None:
        """Say what of the settings this network has no use for, or was not trained with."""
        features, given = self.config.features, self.config.preprocessing.normalisation
        nowhere = not features.mix_style_layers and not early_blocks(backbone, self._size)
        if features.mix_style_probability and nowhere:
            self.reporter.message("MixStyle is off: this network has no early blocks that give fine feature maps.")
        trained_with = published_input(features.backbone).get("preprocessing.normalisation", given)
        if features.weights != "none" and trained_with != given:
            self.reporter.message(
                f"{features.backbone} was trained with the normalisation {trained_with}, and this fit uses {given}: "
                f"expect worse features, or set preprocessing.normalisation={trained_with}."
            )

    def _source_dataset(
        self,
        data: ImageData,
        labels: Any,
        domains: Any,
        holdout: str | Sequence[str],
        skip_bad: bool,
        domain_from: str,
    ) -> DomainDataset:
        size, resize = self._size, self.config.preprocessing.resize
        left_out = (holdout,) if isinstance(holdout, str) else tuple(holdout)
        if isinstance(data, DomainDataset):
            dataset = data
        elif isinstance(data, str | Path) or is_frame(data):
            # Held-out domains are not even decoded: what trains cannot reach their images.
            where = str(data) if isinstance(data, str | Path) else "the data frame"
            kept = _without(domain_names(data, domain_from), left_out, where)
            dataset = load_dataset(
                data,
                size=size,
                resize=resize,
                skip_bad=skip_bad,
                domains=kept,
                reporter=self.reporter,
                domain_from=domain_from,
            )
            left_out = ()
        elif labels is None or domains is None:
            raise DataError("an array of images needs labels and domains beside it: fit(images, labels, domains).")
        else:
            dataset = self._dataset_from_memory(data, labels, domains, skip_bad)
        if left_out:
            dataset = dataset.only(*_without(dataset.domain_names, left_out, dataset.name))
        if len(np.unique(dataset.labels)) < 2:
            raise DataError(f"{dataset.name} has images of one class only; a classifier needs at least two.")
        if len(dataset.domain_names) == 1:
            self.reporter.message(
                f"One source domain only ({dataset.domain_names[0]}): no image shows what changes from one domain to "
                f"the next, so expect lower accuracy on an unseen one. Add a second domain if you can."
            )
        if told := _imbalance(dataset):
            self.reporter.message(told)
        if dataset.image_size != size:
            dataset = replace(dataset, images=resize_images(dataset.images, size, resize))
        return dataset

    def _dataset_from_memory(self, data: Any, labels: Any, domains: Any, skip_bad: bool) -> DomainDataset:
        """Of images in an array, or given one by one."""
        if not _is_list_of_images(data):
            return dataset_from_arrays(data, labels, domains)
        _require_one_each(data, labels, domains)
        request = LoadRequest(resize=self.config.preprocessing.resize, skip_bad=skip_bad, reporter=self.reporter)
        images, kept, skipped = decode_all(one_of_each(data), self._size, request)
        dataset = dataset_from_arrays(images, np.asarray(labels)[kept], np.asarray(domains)[kept])
        return replace(dataset, skipped=tuple(skipped))

    @property
    def _size(self) -> tuple[int, int]:
        side = self.config.preprocessing.image_size
        return side, side

    def _build_net(self, *, pretrained: bool) -> FeatureNet:
        return build_net(self.config, self._size, pretrained=pretrained, backbone=self._custom_backbone)

    def features(self, data: ImageData) -> np.ndarray:
        """f's raw features `(n, d)` of images."""
        return self.searched_features(data, look=self.config.look.plain, styled=False)

    def searched_features(self, data: ImageData, *, look: LookConfig | None = None, styled: bool = True) -> np.ndarray:
        """What `feature_model` takes: raw features `(n, d)`, the mean of all views.

        With the default settings they are `features`.

        Args:
            data: images, as `predict` takes them.
            look: other settings of it than the model's own.
            styled: after styles were brought to the sources', where the model does so; False leaves them as they are.
        """
        parts = [self.trained.encode(images, look, styled=styled)[0] for images, _ in self._image_chunks(data)]
        return torch.cat(parts).cpu().numpy()

    def predict(
        self,
        data: ImageData,
        *,
        projected: bool = True,
        look: LookConfig | None = None,
        search: SearchConfig | None = None,
        skip_bad: bool = False,
        compare: bool = False,
        adapt: bool = False,
    ) -> Predictions:
        """Answers for images of any domain; those from files carry their paths.

        Args:
            data: a `DomainDataset`, an array of images, the path of an image, a folder or a file that lists images (see
                `load_dataset`), the bytes of an image file, an image of Pillow's, or a list of these; or a pandas
                DataFrame with a column `path` or `image`. In a list an array is one image. Paths alone are sorted and
                answered once each; a list that holds anything else is answered in its order. Bytes get the answer of
                their file to the bit, and so does Pillow's image, unless it is a large JPEG whose pixels were loaded
                already (the file is decoded at a reduced size).
            projected: bring each feature to the source manifold first; False is the control.
            look: other settings of how images are seen than the model's own.
            search: other settings of the search than the model's own.
            skip_bad: leave out files that cannot be read instead of stopping; `paths` tells which remain.
            compare: tell the labels without projection too (`unprojected`, `changed`), which takes another pass of the
                network where styles are brought to the sources'.
            adapt: let a memory of the surest images of each class (T3A) answer, so that each answer depends on the
                images before it (`adapted`), in an order that is the same every time. For many images of one domain.
        """
        memory = FolderMemory(self.feature_model) if adapt else None
        parts: list[Predictions] = []
        for images, paths in self._image_chunks(data, skip_bad=skip_bad):
            with rows_named(paths, first=sum(map(len, parts))):
                answer = self.trained.answer(images, projected=projected, look=look, search=search, compare=compare)
            parts.append(replace(answer.predictions, paths=paths))
            if memory is not None:
                memory.add(replace(answer, predictions=parts[-1]))
        return Predictions.concatenate(parts) if memory is None else memory.answers()

    def predict_proba(self, data: ImageData, *, projected: bool = True) -> np.ndarray:
        """Probabilities `(n, classes)`, columns in the order of `class_names`."""
        return self.predict(data, projected=projected).probabilities

    def explain(
        self,
        image: ImageData,
        *,
        data: ImageData | SourceImages | None = None,
        count: int = 5,
        look: LookConfig | None = None,
        search: SearchConfig | None = None,
    ) -> Explanation:
        """Why one image is answered as it is: both answers, and its nearest source images before and after projection.

        Of what the model itself keeps, the nearest images are rows with class and domain.

        Args:
            image: as `predict` takes it, one alone.
            data: the source images, or what `source_images` made of them, for nearest images with paths and pixels.
            count: how many nearest images.
            look, search: other settings than the model's own.
        """
        chunks = list(self._image_chunks(image))
        if sum(len(images.pixels) for images, _ in chunks) != 1:
            raise DataError("explain takes one image; call it for each of several.")
        ((images, paths),) = chunks
        sources = data if isinstance(data, SourceImages) else self.source_images(data)
        with rows_named(paths):
            return explained(
                self.trained, images, sources, path=paths[0] if paths else "", count=count, look=look, search=search
            )

    def check(
        self,
        data: ImageData,
        *,
        sources: ImageData | SourceImages | None = None,
        skip_bad: bool = False,
    ) -> DomainCheck:
        """Will it hold up on these images? An estimated accuracy, distances to the sources, and what to do next.

        They are answered with the model's own settings, as the held-out images were that they are compared with.

        Args:
            data: images without labels, as `predict` takes them.
            sources: the training images, or what `source_images` made of them, to look for copies of them.
            skip_bad: leave out files that cannot be read instead of stopping.
        """
        from homefold.stages.check import check_images  # scikit-learn takes a second to import

        known = sources if isinstance(sources, SourceImages) or sources is None else self.source_images(sources)
        chunks = self._image_chunks(data, skip_bad=skip_bad)
        return check_images(self.trained, chunks, self.sources, known)

    def source_images(self, data: ImageData | None = None) -> SourceImages | None:
        """The source images to compare others with: those of `data`, which may be large, or the few that are kept.

        Args:
            data: the source images as a `DomainDataset`, or the path of their folder or name of the dataset; domains
                that the model was not trained on are left out.
        """
        if data is None:
            if self.sources is None:
                return None
            return SourceImages.of_kept(self.sources, self.class_names, self.source_domains)
        if isinstance(data, str | Path):
            there = domain_names(data)
        elif isinstance(data, DomainDataset):
            there = data.domain_names
        else:
            raise DataError("the source images must be a DomainDataset, a folder or the name of a dataset.")
        kept = [name for name in self.source_domains if name in there]
        if not kept:
            raise DataError(
                f"none of the domains that this model was trained on ({', '.join(self.source_domains)}) is among those "
                f"given ({', '.join(there)})."
            )
        size, resize = self._size, self.config.preprocessing.resize
        if isinstance(data, DomainDataset):
            dataset = data.only(*kept)
        else:
            dataset = load_dataset(data, size=size, resize=resize, domains=kept, reporter=self.reporter)
        raw = torch.from_numpy(self.features(dataset))
        return SourceImages.of_dataset(dataset, self.feature_model.prepare(raw).cpu().numpy())

    def project(
        self, data: ImageData, *, look: LookConfig | None = None, search: SearchConfig | None = None
    ) -> Projection:
        """Where each image's feature comes home to on the source manifold."""
        parts = [
            self.feature_model.project(self.trained.encode(images, look)[0], search)
            for images, _ in self._image_chunks(data)
        ]
        return Projection.concatenate(parts).cpu()

    def score(self, data: ImageData, labels: Any = None, *, projected: bool = True) -> float:
        """Accuracy on a `DomainDataset`, a dataset's name, a folder `root/domain/class/image`, or images with `labels`.

        In a list each entry is one image, also where all are paths, and labels stand in the same order. Labels are
        compared by name, as `fit` was given them: the number 3 is the class called "3".
        """
        if labels is None and (isinstance(data, str | Path) or is_frame(data)):
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
        if _is_list_of_images(data):
            _require_one_each(data, labels)
            chunks = self._decoded_chunks(one_of_each(data), LoadRequest(resize=self.config.preprocessing.resize))
            parts = [self.trained.answer(images, projected=projected).predictions.labels for images, _ in chunks]
            return float((np.concatenate(parts) == truth).mean())
        return float((self.predict(data, projected=projected).labels == truth).mean())

    def _image_chunks(self, data: ImageData, *, skip_bad: bool = False) -> Iterator[tuple[ImageSet, tuple[str, ...]]]:
        """Decoded images of the model's size with the files they came from, a bounded number at a time."""
        size, resize = self._size, self.config.preprocessing.resize
        if isinstance(data, DomainDataset):
            images = data.images
        elif isinstance(data, np.ndarray | torch.Tensor):
            images = images_from_array(data)
        else:
            given: Any = [data] if is_given_image(data) else data
            listed = listed_images(data) if is_frame(data) else None
            if listed is None and (not isinstance(given, Sequence) or not all(map(is_given_image, given))):
                raise DataError(
                    f"images must be an array, a path, the bytes of a file, an image of Pillow's, or a list of these; "
                    f"got {type(data).__name__} ({shown(data)})."
                )
            sources: Sequence[Decodable] = given_images(given) if listed is None else listed
            yield from self._decoded_chunks(sources, LoadRequest(resize=resize, skip_bad=skip_bad))
            return
        for start in range(0, len(images), _DECODED_AT_ONCE):
            part = np.asarray(images[start : start + _DECODED_AT_ONCE])
            yield ImageSet(resize_images(part, size, resize)), ()

    def _decoded_chunks(
        self, sources: Sequence[Decodable], request: LoadRequest
    ) -> Iterator[tuple[ImageSet, tuple[str, ...]]]:
        paths = paths_of(sources)

        def decode(rows: range) -> tuple[np.ndarray, tuple[str, ...]]:
            decoded, kept, _ = decode_all(sources[rows.start : rows.stop], self._size, request)
            return decoded, tuple(paths[rows[i]] for i in kept) if paths else ()

        every = range(len(sources))
        chunks = [every[start : start + _DECODED_AT_ONCE] for start in every[::_DECODED_AT_ONCE]]
        # An accelerator computes while the processor decodes the next chunk.
        for decoded, names in one_ahead(decode, chunks, enabled=self.device.type != "cpu"):
            if len(decoded):
                yield ImageSet(decoded), names

    def save(self, path: Path | str, *, on_whole: Callable[[str], None] | None = None) -> None:
        """Write the model as one folder, atomically.

        Args:
            path: of the folder; only a model or an empty folder is replaced.
            on_whole: told the model's checksum once all is written, and before it takes its place.
        """
        description = self._description()
        write_model_folder(path, self._tensors(), description, model_card(description), on_whole)

    def _description(self) -> ImagesDescription:
        """What a saved model says of itself."""
        return {
            "kind": "images",
            "settings": plain_json(config_to_dict(self.trained.config)),
            "classes": list(self.class_names),
            "source_domains": list(self.source_domains),
            "measured": plain_json(self.reports),
            "versions": versions(),
        }

    def _tensors(self) -> dict[str, dict[str, torch.Tensor]]:
        """The weights of all stages."""
        tensors = {"features": self.net.state_dict(), "home": self.feature_model.tensors()}
        if self.trained.style is not None:
            tensors["style"] = self.trained.style.state_dict()
        if self.trained.familiarity is not None:
            tensors["familiar"] = self.trained.familiarity.state_dict()
        if self._sources is not None:
            tensors["sources"] = self._sources.tensors()
        if self._thumbnails is not None:
            tensors["thumbnails"] = self._thumbnails.tensors()
        return tensors

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
        tensors, description = read_model_folder(path)
        config = images_config(description, path)
        if config.features.backbone == CUSTOM and backbone is None:
            raise ConfigError(f"the model in {path} was fitted with a network of your own; pass it as backbone=.")
        if backbone is None and not config.features.backbone.startswith("timm:"):
            require_registered(config.features.backbone, BACKBONES, path)
        require_registered(config.manifold.kind, MANIFOLDS, path)
        model = cls(config, backbone=backbone, device=device, verbose=verbose, reporter=reporter)
        try:
            model._restore(tensors, description)
        except (ConfigError, ModelFileError) as error:
            raise ModelFileError(f"the model in {path} cannot be rebuilt: {error}") from None
        return model

    def _restore(self, tensors: dict[str, dict[str, torch.Tensor]], description: dict[str, Any]) -> None:
        """Take over what was saved; what does not fit the settings is refused."""
        config, own = self.config, self._custom_backbone
        net = rebuilt(
            lambda: self._build_net(pretrained=False),
            tensors["features"],
            "the network",
            # A mask in a network of the user's own may hide by minus infinity.
            may_be_infinite=[] if own is None else [f"backbone.{name}" for name, _ in own.named_buffers()],
        )
        style = self._restored_style(net, tensors.get("style"))
        frozen(net, self.device)
        self._trained = TrainedModel(
            config=config,
            encoder=Encoder(self.device, net),
            feature_model=FeatureModel.from_tensors(
                tensors["home"],
                config,
                class_names=tuple(description["classes"]),
                manifold_report=description["measured"]["manifold"],
                device=self.device,
                feature_dim=net.feature_dim,
            ),
            domains=tuple(description["source_domains"]),
            reports=description["measured"],
            style=style,
            styled=None if style is None else Encoder(self.device, styled_net(net, style)),
            familiarity=self._restored_familiarity(style, tensors.get("familiar")),
        )
        if "sources" in tensors:
            self._sources = KeptSources.from_tensors(
                tensors["sources"],
                feature_dim=net.feature_dim,
                classes=len(description["classes"]),
                domains=len(description["source_domains"]),
            )
        self._thumbnails = self._restored_thumbnails(tensors.get("thumbnails"))

    def _restored_thumbnails(self, tensors: dict[str, torch.Tensor] | None) -> Thumbnails | None:
        found = None
        if tensors is not None:
            count = 0 if self._sources is None else len(self._sources.rows)
            found = Thumbnails.from_tensors(tensors, count=count, image_size=self._size[0])
        if self.reports.get("thumbnails") != (None if found is None else found.facts()):
            raise ModelFileError("its description and its files do not agree on the thumbnails.")
        return found

    def _restored_style(self, net: FeatureNet, tensors: dict[str, torch.Tensor] | None) -> StyleModel | None:
        config = self.config.style
        if bool(config.blocks) != (tensors is not None):
            raise ModelFileError("its settings and its files do not agree on whether styles are brought home.")
        if tensors is None:
            return None
        style = StyleModel.from_tensors(tensors, config)
        require_channels(style, net.backbone, self._size)
        return style.to(self.device).eval().requires_grad_(False)

    def _restored_familiarity(
        self, style: StyleModel | None, tensors: dict[str, torch.Tensor] | None
    ) -> Familiarity | None:
        if (tensors is not None) != self.config.look.leave_familiar:
            raise ModelFileError("its settings and its files do not agree on whether familiar images are left alone.")
        if tensors is None:
            return None
        known = Familiarity.from_tensors(tensors)
        wanted = [] if style is None else style.sizes
        if known.sizes.tolist() != wanted:
            raise ModelFileError("the familiar styles are not of this network: they have other channels.")
        return known.to(self.device)


def auto_config(
    data: ImageData,
    labels: Any = None,
    domains: Any = None,
    *,
    holdout: str | Sequence[str] = (),
    domain_from: str = "",
    settings: Mapping[str, Any] = MappingProxyType({}),
    device: str | torch.device = "auto",
) -> HomefoldConfig:
    """The settings of the preset `auto` for these images: see docs/small-data.md. Nothing is decoded.

    Args:
        data, labels, domains, holdout, domain_from: as `Homefold.fit` takes them.
        settings: values by dotted name, which win over what the images suggest.
        device: where it will be computed; without a GPU the backbone is frozen.

    >>> auto_config("digits-mini", settings={"features.weights": "none"}).features.backbone
    'digits-bn'
    """
    counts = _counts(data, labels, domains, holdout, domain_from)
    return _config_for(counts, settings, resolve_device(device))


def _config_for(counts: np.ndarray, settings: Mapping[str, Any], device: torch.device) -> HomefoldConfig:
    """The recipe's settings for so many images of each domain and class, `(domains, classes)`."""
    asked = preset_config("default", settings)
    facts = DataFacts(
        images=int(counts.sum()),
        kinds=int((counts > 0).sum()),
        pretrained=weights_identity(asked.features) != "none",
        accelerated=device.type != "cpu",
        tower=asked.features.backbone.startswith("timm:"),
    )
    preset, chosen = recipe(facts)
    own_rate = asked.features.backbone in BACKBONES and preset in BACKBONES[asked.features.backbone].rates
    kept = {name: value for name, value in chosen.items() if not (own_rate and name == "features.learning_rate")}
    return preset_config(preset, {**kept, **settings})


def _counts(
    data: ImageData, labels: Any, domains: Any, held_out: str | Sequence[str], domain_from: str = ""
) -> np.ndarray:
    """Images of each source domain and class, `(domains, classes)`."""
    holdout = (held_out,) if isinstance(held_out, str) else tuple(held_out)
    if isinstance(data, str | Path) or is_frame(data):
        known = domain_names(data, domain_from)
        return count_images(data, _without(known, holdout, str(data)) if holdout else None, domain_from)
    if not isinstance(data, DomainDataset):
        if labels is None or domains is None:
            raise DataError("an array of images needs labels and domains beside it: fit(images, labels, domains).")
        if _is_list_of_images(data):
            _require_one_each(data, labels, domains)
            data = np.zeros((len(data), 1, 1, 3), dtype=np.uint8)
        data = dataset_from_arrays(data, labels, domains)
    kept = _without(data.domain_names, holdout, data.name) if holdout else data.domain_names
    rows = np.isin(data.domains, [data.domain_index(name) for name in kept])
    counts = np.zeros((len(data.domain_names), len(data.class_names)), dtype=np.int64)
    np.add.at(counts, (data.domains[rows], data.labels[rows]), 1)
    return counts


def _is_list_of_images(data: Any) -> TypeIs[Sequence[GivenImage]]:
    """Whether images are given one by one; numbers in nested lists are an array."""
    return isinstance(data, list | tuple) and bool(data) and all(map(is_given_image, data))


def _require_one_each(images: Sequence[GivenImage], *of_each: Any) -> None:
    for values in of_each:
        if len(values) != len(images):
            raise DataError(f"there are {len(images)} images and {len(values)} labels or domains; give one for each.")


def _imbalance(dataset: DomainDataset) -> str:
    """A sentence where some class has many times the images of another; else nothing."""
    counts = np.bincount(dataset.labels, minlength=len(dataset.class_names))
    least, most = int(np.where(counts > 0, counts, counts.max()).argmin()), int(counts.argmax())
    if counts[most] < _IMBALANCED * counts[least]:
        return ""
    names = dataset.class_names
    return (
        f"Classes are uneven: {counts[most]} images of {names[most]}, {counts[least]} of {names[least]}. Answers lean "
        f"towards the frequent ones. features.sampling=balanced trains on all alike; homefold evaluate shows each."
    )


def _without(names: Sequence[str], left_out: Sequence[str], where: str) -> list[str]:
    """`names` less those held out; a sentence when one does not exist or none is left."""
    for name in left_out:
        if name not in names:
            raise DataError(f"there is no domain {name!r} to hold out in {where}; it has {', '.join(names)}.")
    kept = [name for name in names if name not in left_out]
    if not kept:
        raise DataError(f"no source domain of {where} is left: all of {', '.join(names)} are held out.")
    return kept


def _stages_in(work_dir: Path | str | None) -> StageStore:
    """Where the stages of a fit are kept; processes that train along with the first write nothing."""
    if work_dir is not None and current_processes().is_first:
        return StageStore(work_dir)
    return MemoryStages(work_dir)
