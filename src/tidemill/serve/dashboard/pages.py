"""The page of the dashboard and what it is made of; it holds no data, so anybody who reaches the server may load it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

router = APIRouter(include_in_schema=False)

_MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""The system's table of types may lack or change some of them, and browsers take no module of another type."""


@dataclass(frozen=True)
class Asset:
    """A file of the page."""

    content: bytes
    media_type: str
    tag: str


@cache
def assets() -> dict[str, Asset]:
    """All files by path. They are in memory, so no request can name another file."""
    return dict(_found(resources.files("tidemill.serve.dashboard") / "assets", ""))


def _found(folder: Traversable, prefix: str) -> list[tuple[str, Asset]]:
    found: list[tuple[str, Asset]] = []
    for item in folder.iterdir():
        name = prefix + item.name
        if item.is_dir():
            found += _found(item, f"{name}/")
        elif (media_type := _MEDIA_TYPES.get(item.name[item.name.rfind(".") :])) is not None:
            content = item.read_bytes()
            found.append((name, Asset(content, media_type, f'"{hashlib.sha256(content).hexdigest()[:32]}"')))
    return found


@router.api_route("/", methods=["GET", "HEAD"])
@router.api_route("/dashboard", methods=["GET", "HEAD"])
async def root() -> Response:
    """To the page."""
    return RedirectResponse("/dashboard/")


@router.api_route("/docs", methods=["GET", "HEAD"])
async def interface() -> Response:
    """To the page's description of the HTTP interface."""
    return RedirectResponse("/dashboard/#/api")


@router.api_route("/dashboard/{path:path}", methods=["GET", "HEAD"])
async def asset(path: str, request: Request) -> Response:
    """A file of the page. Browsers ask each time whether it has changed, so an upgrade is seen at once."""
    found = assets().get(path or "index.html")
    if found is None:
        raise HTTPException(404)
    headers = {"Cache-Control": "no-cache", "ETag": found.tag}
    if request.headers.get("if-none-match") == found.tag:
        return Response(status_code=304, headers=headers)
    return Response(found.content, headers=headers, media_type=found.media_type)
