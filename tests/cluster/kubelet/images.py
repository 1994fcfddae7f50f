"""Which image is what: an image of the tests is a recipe, not a download.

A recipe: `root` (a directory laid over this machine's own root, read first), `binds` (directories
shown read-only at the path they have here), `env`, `user` (the number that the image's USER is),
`command` (its entry point) and `nice` (for programs that limit the time of their own start: less
than 0 lets them go first).
"""

from __future__ import annotations

import re

from .environment import NotYet

DEFAULTS = {"root": None, "binds": [], "env": {}, "user": 0, "command": [], "nice": 0}


def find(images: dict, reference: str) -> dict:
    for pattern, recipe in images.items():
        if re.fullmatch(pattern, reference):
            return {**DEFAULTS, **recipe}
    raise NotYet(f'failed to pull image "{reference}": not found', "ErrImagePull")
