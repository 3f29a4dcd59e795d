"""Files that are written atomically, so that readers never see a partial one."""

import os
from pathlib import Path


def write(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Write a file whole or not at all: it is moved into place. Raises OSError."""
    new = path.with_name(f".{path.name}.new")
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
        file.write(content)
    new.replace(path)
