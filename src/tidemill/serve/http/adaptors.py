"""Python adaptors: sources whose ``decode`` turns messages into rows."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import JSONResponse, Response

from tidemill.runtime.catalog.adaptors import version_of
from tidemill.runtime.catalog.catalog import Catalog
from tidemill.runtime.catalog.changes.adaptor_changes import FORMAT, users_of
from tidemill.serve.http.callers import ADMIN, WITH_TOKEN, CallerRole, Served
from tidemill.serve.http.models import AdaptorBody, AdaptorCreated, AdaptorDescription, AdaptorList, Executed
from tidemill.serve.http.names import DECODED

router = APIRouter(prefix="/v1/adaptors", tags=["readers"], dependencies=[*WITH_TOKEN, ADMIN])

AdaptorName = Annotated[str, Path(max_length=64), DECODED]


@router.get("", summary="List adaptors")
def list_adaptors(service: Served) -> AdaptorList:
    """All adaptors, with the tables that use them."""
    catalog = service.mill.snapshot().catalog
    return AdaptorList(adaptors=[_described(catalog, name) for name in catalog.adaptors])


@router.post("", response_model=AdaptorCreated, summary="Create an adaptor")
def create_adaptor(body: AdaptorBody, service: Served, role: CallerRole) -> Response:
    """Its source is loaded once, in a process with limits; readers then name it as their format."""
    held = service.create_adaptor(body.name, body.source, role, body.replace)
    found = {"name": body.name.lower(), "version": version_of(body.source), "kept_from": held}
    return JSONResponse(found, 201)


@router.get("/{name}", summary="Describe an adaptor")
def describe_adaptor(name: AdaptorName, service: Served) -> AdaptorDescription:
    """Its source, and the tables that use it."""
    catalog = service.mill.snapshot().catalog
    return _described(catalog, catalog.adaptor(name).name)


@router.delete("/{name}", response_model=Executed, summary="Remove an adaptor")
def drop_adaptor(name: AdaptorName, service: Served, role: CallerRole) -> Response:
    """Refused while tables use it."""
    service.drop_adaptor(name, role)
    return JSONResponse({"ok": True, "epoch": service.mill.epoch})


def _described(catalog: Catalog, name: str) -> AdaptorDescription:
    adaptor = catalog.adaptors[name]
    tables = {t: version_of(catalog.tables[t].options["adaptorsource"]) for t in users_of(catalog, name)}
    return AdaptorDescription(name=name, format=FORMAT, version=adaptor.version, source=adaptor.source, tables=tables)
