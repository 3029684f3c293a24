"""Protocols on a dataset small enough to check every index by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from homefold.data import DomainDataset
from homefold.errors import DataError
from homefold.evaluation.protocols import (
    Corruption,
    FewShot,
    LeaveOneDomainOut,
    LeaveTwoDomainsOut,
    Scarce,
    SingleSource,
    few_of_each_class,
    source_dataset,
    stratified_subset,
)

# index:    0..3 are domain a, 4..7 b, 8..11 c; labels alternate 0, 1
DOMAINS = np.repeat([0, 1, 2], 4)
LABELS = np.tile([0, 1], 6)


def make(domains=DOMAINS, labels=LABELS, names=("a", "b", "c"), splits=()) -> DomainDataset:
    images = np.zeros((len(domains), 2, 2, 3), dtype=np.uint8)
    images[:, 0, 0, 0] = np.arange(len(domains)) % 256
    return DomainDataset(images, labels, domains, ("x", "y"), names, name="hand-made", splits=splits)


def test_leave_one_domain_out_trains_on_the_others_and_tests_on_all_of_the_one():
    splits = LeaveOneDomainOut().splits(make(), seed=0)
    assert [split.name for split in splits] == ["a", "b", "c"]
    assert splits[1].source.tolist() == [0, 1, 2, 3, 8, 9, 10, 11]
    assert [(target.name, target.indices.tolist()) for target in splits[1].targets] == [("b", [4, 5, 6, 7])]
    assert splits[1].facts == {"sources": ["a", "c"]}


def test_official_test_images_are_never_trained_on_but_are_tested_on():
    official = ("train", "train", "test", "val") * 3
    split = LeaveOneDomainOut(source_fraction=0.5).splits(make(splits=official), seed=0)[0]
    assert split.source.tolist() == [4, 5, 7, 8, 9, 11]
    assert split.targets[0].indices.tolist() == [0, 1, 2, 3]
    assert "source_fraction" not in split.facts


def test_a_share_of_each_source_where_there_is_no_official_one():
    split = LeaveOneDomainOut(source_fraction=0.5).splits(make(), seed=0)[0]
    cells = sorted(zip(DOMAINS[split.source].tolist(), LABELS[split.source].tolist(), strict=True))
    assert cells == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert split.facts["source_fraction"] == 0.5


def test_single_source_tests_on_every_other_domain():
    splits = SingleSource().splits(make(), seed=0)
    assert [split.source.tolist() for split in splits] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert [target.name for target in splits[2].targets] == ["a", "b"]
    assert splits[2].targets[0].indices.tolist() == [0, 1, 2, 3]


def test_leaving_two_out_trains_what_leave_one_source_out_selection_trains():
    splits = LeaveTwoDomainsOut().splits(make(), seed=0)
    assert [split.name for split in splits] == ["without a and b", "without a and c", "without b and c"]
    assert [split.source.tolist() for split in splits] == [[8, 9, 10, 11], [4, 5, 6, 7], [0, 1, 2, 3]]
    assert [target.name for target in splits[1].targets] == ["a", "c"]
    assert splits[1].targets[1].indices.tolist() == [8, 9, 10, 11]
    with pytest.raises(DataError, match="leave-two-domains-out needs at least 3 domains"):
        LeaveTwoDomainsOut().splits(make().only("a", "b"), seed=0)


def test_scarce_takes_the_share_of_every_domain_and_class():
    dataset = make(np.repeat([0, 1, 2], 20), np.tile([0, 1], 30))
    splits = Scarce().splits(dataset, seed=0)
    assert [split.name for split in splits][:5] == ["a, 20%", "a, 40%", "a, 60%", "a, 80%", "b, 20%"]
    for split, count in zip(splits[:4], (2, 4, 6, 8), strict=True):
        cells = np.stack([dataset.domains[split.source], dataset.labels[split.source]])
        values, counts = np.unique(cells, axis=1, return_counts=True)
        assert values.T.tolist() == [[1, 0], [1, 1], [2, 0], [2, 1]]
        assert counts.tolist() == [count] * 4
        assert split.targets[0].indices.tolist() == list(range(20))


def test_other_seeds_draw_other_shares_and_the_same_seed_the_same():
    dataset = make(np.repeat([0, 1, 2], 20), np.tile([0, 1], 30))
    everything = np.arange(60)
    first, again, other = (stratified_subset(dataset, everything, 0.5, seed) for seed in (0, 0, 1))
    assert first.tolist() == again.tolist()
    assert first.tolist() != other.tolist()


class TestFewShot:
    def test_every_pair_and_number_of_shots(self):
        dataset = make(np.repeat([0, 1], 10), np.tile([0, 1], 10), names=("a", "b"))
        splits = FewShot(shots=(0, 2)).splits(dataset, seed=0)
        assert [split.name for split in splits] == [
            "a->b, 0 per class",
            "a->b, 2 per class",
            "b->a, 0 per class",
            "b->a, 2 per class",
        ]
        none, two = splits[0], splits[1]
        assert none.source.tolist() == two.source.tolist() == list(range(10))
        assert len(none.adapt) == 0
        assert sorted(dataset.labels[two.adapt].tolist()) == [0, 0, 1, 1]
        assert set(two.adapt.tolist()) < set(range(10, 20))
        # tested on the rest, and on the same rest whatever the number of shots
        rest = set(range(10, 20)) - set(two.adapt.tolist())
        assert set(two.targets[0].indices.tolist()) == set(none.targets[0].indices.tolist()) == rest
        assert two.facts == {"sources": ["a"], "shots": 2}

    def test_fewer_shots_are_among_more(self):
        dataset = make(np.repeat([0, 1], 10), np.tile([0, 1], 10), names=("a", "b"))
        one, three = FewShot(shots=(1, 3)).splits(dataset, seed=4)[:2]
        assert set(one.adapt.tolist()) < set(three.adapt.tolist())

    def test_the_official_test_images_are_the_rest(self):
        official = ("train",) * 10 + ("train",) * 6 + ("test",) * 4
        dataset = make(np.repeat([0, 1], 10), np.tile([0, 1], 10), names=("a", "b"), splits=official)
        split = FewShot(shots=(2,)).splits(dataset, seed=0)[0]
        assert split.targets[0].indices.tolist() == [16, 17, 18, 19]
        assert set(split.adapt.tolist()) < set(range(10, 16))

    def test_the_papers_pairs_where_the_dataset_has_them(self):
        names = ("mnist", "usps", "svhn")
        dataset = make(np.repeat([0, 1, 2], 10), np.tile([0, 1], 15), names=names)
        splits = FewShot(shots=(1,)).splits(dataset, seed=0)
        assert [split.name.split(",")[0] for split in splits] == ["usps->mnist", "mnist->svhn", "svhn->mnist"]

    def test_too_few_images_to_draw_from(self):
        with pytest.raises(DataError, match=r"b has 2 images of class x to draw from; 10 shots need more"):
            FewShot().splits(make(names=("a", "b", "c")), seed=0)


class TestCorruption:
    NAMES = ("clean", "gaussian_noise_1", "gaussian_noise_5", "jpeg_compression-3")

    def test_trains_on_clean_and_tests_on_each_corruption_and_severity(self):
        dataset = make(np.repeat([0, 1, 2, 3], 4), np.tile([0, 1], 8), names=self.NAMES)
        (split,) = Corruption().splits(dataset, seed=0)
        assert split.source.tolist() == [0, 1, 2, 3]
        assert [target.facts for target in split.targets] == [
            {"corruption": "gaussian_noise", "severity": 1},
            {"corruption": "gaussian_noise", "severity": 5},
            {"corruption": "jpeg_compression", "severity": 3},
        ]
        assert split.targets[1].indices.tolist() == [8, 9, 10, 11]

    def test_the_clean_test_images_are_a_target_too(self):
        splits = ("train", "train", "test", "test") + ("test",) * 12
        dataset = make(np.repeat([0, 1, 2, 3], 4), np.tile([0, 1], 8), names=self.NAMES, splits=splits)
        (split,) = Corruption().splits(dataset, seed=0)
        assert split.source.tolist() == [0, 1]
        assert (split.targets[0].name, split.targets[0].indices.tolist()) == ("clean", [2, 3])
        assert split.targets[0].facts == {"corruption": "none", "severity": 0}


def test_one_domain_is_too_few():
    with pytest.raises(DataError, match=r"leave-one-domain-out needs at least 2 domains; hand-made has 1 \(a\)"):
        LeaveOneDomainOut().splits(make().only("a"), seed=0)


def test_what_trains_knows_its_own_domains_only():
    dataset = replace(make(), splits=("train",) * 12)
    source = source_dataset(dataset, np.asarray([8, 9, 1]))
    assert source.domain_names == ("a", "c")
    assert source.domains.tolist() == [1, 1, 0]
    assert source.images[:, 0, 0, 0].tolist() == [8, 9, 1]
    assert source.labels.tolist() == [0, 1, 1]
    assert source.splits == ("train",) * 3


@pytest.mark.parametrize("protocol", [LeaveOneDomainOut(), SingleSource(), Scarce(), FewShot(), Corruption()])
def test_every_protocol_says_in_one_sentence_what_it_does(protocol):
    assert protocol.description.endswith(".")
    assert protocol.description.count(". ") == 0
    assert protocol.name == protocol.name.lower()


def test_a_few_of_each_class_of_the_sources():
    dataset = make(np.repeat([0, 1], 12), np.tile([0, 1], 12), ("a", "b"))
    indices = np.arange(24)
    two, three = (few_of_each_class(dataset, indices, count, seed=1) for count in (2, 3))
    cells = list(zip(dataset.domains[two].tolist(), dataset.labels[two].tolist(), strict=True))
    assert sorted(cells) == sorted([(d, c) for d in (0, 1) for c in (0, 1)] * 2)
    assert set(two.tolist()) < set(three.tolist())
    assert few_of_each_class(dataset, indices, 99, seed=1).tolist() == indices.tolist()
    assert few_of_each_class(dataset, indices, 2, seed=2).tolist() != two.tolist()
