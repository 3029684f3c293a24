"""A model from the Hub, at one revision: its description, its tensors and its card, and nothing that could run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from homefold.errors import ModelFileError
from homefold.hub.repository import endpoint, hub_client, talking
from homefold.runtime.text import as_text, some
from homefold.store.files import atomic_directory
from homefold.store.model_folder import MODEL_FILES, read_model_folder, require_replaceable

__all__ = ["Pulled", "pull_model"]

_ACCEPTED = (".json", ".safetensors", ".md", ".gitattributes")
_LARGEST_TEXT = 1 << 26


@dataclass(frozen=True)
class Pulled:
    """Where a model came from."""

    folder: Path
    repository: str
    revision: str
    """The commit; given as `revision` it brings the same model again, whatever is pushed later."""


def pull_model(repository: str, out: Path | str, *, revision: str = "main", token: str | None = None) -> Pulled:
    """Bring a model from the Hub to a folder, which is checked before it takes its place.

    A branch or tag is looked up once, and all files are those of the commit that it stood for. A repository that holds
    anything but JSON, safetensors and Markdown is refused, before anything of it is downloaded.

    Args:
        repository: `owner/name`.
        out: the folder; only a model or an empty folder is replaced.
        revision: a commit, or a branch or tag.
        token: of the account; by default the one that huggingface_hub knows.
    """
    client, out = hub_client(), Path(out)
    require_replaceable(out)
    with talking(repository, revision):
        info = client.HfApi(endpoint=endpoint(), token=token, library_name="homefold").model_info(
            repository, revision=revision, files_metadata=True
        )
        commit = str(info.sha)
        _require_harmless(repository, info.siblings or ())
    found = {file.rfilename for file in info.siblings or ()}
    if "model.json" not in found:
        raise ModelFileError(f"{repository} is not a homefold model: it has no model.json.")
    with atomic_directory(out, require_replaceable) as folder:
        below = folder / ".download"  # with what the client keeps beside the files
        with talking(repository, commit):
            for name in sorted(found & set(MODEL_FILES)):
                file = client.hf_hub_download(
                    repository, name, revision=commit, local_dir=below, endpoint=endpoint(), token=token
                )
                os.replace(file, folder / name)
        shutil.rmtree(below)
        read_model_folder(folder)
    return Pulled(out, repository, commit)


def _require_harmless(repository: str, files: Sequence[Any]) -> None:
    """Refuse what is of another kind than a model's files, or a text too large to be one."""
    strange = sorted(as_text(file.rfilename) for file in files if not file.rfilename.lower().endswith(_ACCEPTED))
    if strange:
        raise ModelFileError(
            f"{repository} holds {some(strange)}; a homefold model is JSON, safetensors and Markdown alone, so nothing "
            "was downloaded."
        )
    texts = [file for file in files if not file.rfilename.endswith(".safetensors")]
    if large := [file.rfilename for file in texts if (file.size or 0) > _LARGEST_TEXT]:
        raise ModelFileError(f"{some(large)} of {repository} is too large for a text; nothing was downloaded.")
