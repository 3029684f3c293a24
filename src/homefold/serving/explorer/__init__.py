"""What the page shows of labelled images: where each lies, what the model says of it, why it says so."""

from homefold.serving.explorer.explorer import Explorer
from homefold.serving.explorer.gallery import Gallery

__all__ = ["Explorer", "Gallery"]
