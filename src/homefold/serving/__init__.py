"""One model behind HTTP: answers over an API and on a page, safe by default.

It needs the extra `serve` (FastAPI, uvicorn), which nothing else of homefold imports. What is served lies in
`endpoints/`, one file each; the page in `page/`, files that a browser loads as they are.
"""

from __future__ import annotations

__all__: list[str] = []
