"""A model folder to the Hub, in one commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from homefold.hub.card import Measured, hub_card
from homefold.hub.repository import endpoint, hub_client, talking
from homefold.store.model_folder import MODEL_FILES, read_model_folder

__all__ = ["Pushed", "push_model"]


@dataclass(frozen=True)
class Pushed:
    """Where a model went."""

    repository: str
    revision: str
    """The commit, which `pull_model` takes."""
    url: str
    files: tuple[str, ...]


def push_model(
    folder: Path | str,
    repository: str,
    *,
    branch: str = "main",
    public: bool = False,
    licence: str = "",
    base_model: str = "",
    measured: Sequence[Measured] = (),
    message: str = "Push a model of homefold",
    token: str | None = None,
) -> Pushed:
    """Put a model folder on the Hub; a repository that is not there yet is made, private unless `public`.

    The folder is checked first, and stays as it is. In one commit its files take the place of an earlier model's.

    Args:
        folder: as `save` wrote it.
        repository: `owner/name`.
        branch: where the commit goes.
        public: whether a new repository is for everybody to see.
        licence, base_model, measured: see `hub_card`.
        message: of the commit.
        token: of the account; by default the one that huggingface_hub knows.
    """
    client, folder = hub_client(), Path(folder)
    _, description = read_model_folder(folder)
    text = (folder / "README.md").read_text(encoding="utf-8") if (folder / "README.md").is_file() else ""
    card = hub_card(
        text,
        description,
        name=repository.rpartition("/")[2],
        licence=licence,
        base_model=base_model,
        measured=measured,
    )
    parts = [f"{part}.safetensors" for part in description["digests"]]
    with talking(repository, branch):
        api = client.HfApi(endpoint=endpoint(), token=token, library_name="homefold")
        api.create_repo(repository, private=not public, exist_ok=True)
        there = {file.rfilename for file in api.model_info(repository, revision=branch).siblings or ()}
        commit = api.create_commit(
            repository,
            [
                client.CommitOperationAdd("README.md", card.encode()),
                *(client.CommitOperationAdd(name, folder / name) for name in ("model.json", *parts)),
                *(client.CommitOperationDelete(name) for name in sorted(there & set(MODEL_FILES[2:]) - set(parts))),
            ],
            commit_message=message,
            revision=branch,
        )
    url = f"{endpoint()}/{repository}"
    return Pushed(repository, str(commit.oid), url, ("README.md", "model.json", *parts))
