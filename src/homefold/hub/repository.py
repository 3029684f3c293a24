"""What push and pull share: the Hub's client and its errors in sentences."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from homefold.errors import ConfigError, HomefoldError, ModelFileError, cut

__all__ = ["endpoint", "hub_client", "talking"]

_PUBLIC = "https://huggingface.co"


def endpoint() -> str:
    """The address of the Hub: `HF_ENDPOINT`, or the public one."""
    return (os.environ.get("HF_ENDPOINT") or _PUBLIC).rstrip("/")


def hub_client() -> Any:
    """The package huggingface_hub, or a sentence that says how to get it."""
    try:
        import huggingface_hub
    except ImportError:
        raise ConfigError("push and pull need the huggingface_hub package: pip install 'homefold[hub]'.") from None
    return huggingface_hub


@contextmanager
def talking(repository: str, revision: str = "") -> Iterator[None]:
    """Inside, whatever goes wrong between here and the Hub becomes a sentence."""
    hub_client()
    from huggingface_hub import errors

    try:
        yield
    except HomefoldError:
        raise
    except errors.HFValidationError:
        raise ConfigError(
            f"{cut(repository)} is no name of a repository; write OWNER/NAME in letters, digits, '-', '_' and '.'."
        ) from None
    except errors.RevisionNotFoundError:
        raise ModelFileError(f"{repository} has no revision {cut(revision)} at {endpoint()}.") from None
    except errors.GatedRepoError:
        raise ModelFileError(f"access to {repository} has to be asked for at {endpoint()}/{repository}.") from None
    except errors.RepositoryNotFoundError:
        raise ModelFileError(
            f"there is no model {repository} at {endpoint()}, or it may not be seen without logging in (hf auth login)."
        ) from None
    except errors.LocalTokenNotFoundError:
        raise ConfigError(f"nobody is logged in to {endpoint()}: run hf auth login, or set HF_TOKEN.") from None
    except errors.OfflineModeIsEnabled:
        raise ConfigError("HF_HUB_OFFLINE is set, so that nothing is fetched or sent; unset it first.") from None
    except errors.HfHubHTTPError as error:
        code = getattr(error.response, "status_code", 0)
        if code in (401, 403):
            raise ModelFileError(
                f"{endpoint()} does not allow this for {repository} ({code}): log in with a token that may (hf auth "
                "login, or HF_TOKEN)."
            ) from None
        raise ModelFileError(f"{endpoint()} refused this for {repository}: {cut(str(error))}") from None
    # A connection can end in the errors of several packages, some of which are no OSError.
    except Exception as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise  # a file here
        reason = cut(str(error)) or type(error).__name__
        raise ModelFileError(f"{endpoint()} could not be reached for {repository}: {reason}") from None
