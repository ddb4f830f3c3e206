"""The operators of all operations; each says which operation it carries out. Every file here is imported with it."""

from importlib import import_module
from pkgutil import walk_packages

for _module in walk_packages(__path__, f"{__name__}."):
    import_module(_module.name)
