"""hack/site: build the pages as a site, with search, and check links and diagrams."""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from hack.lab.sandbox import cache
from hack.lab.sandbox.objects import REPOSITORY
from hack.lab.site.markdown import DESIGN, DOCS, address, converted, diagrams

_HERE = Path(__file__).parent


def pages() -> dict[str, str]:
    """Return the text of all pages by their path in the repository."""
    files = [*(REPOSITORY / DOCS).rglob("*.md"), *(REPOSITORY / DESIGN).glob("*.md")]
    return {str(file.relative_to(REPOSITORY)): file.read_text() for file in sorted(files)}


def stage(folder: Path, script: Path | None) -> None:
    """Write converted pages, pictures and configuration. Overwrite an earlier stage."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(REPOSITORY / "docs/pictures", folder / "docs/pictures")
    shutil.copy(_HERE / "mkdocs.yml", folder)
    shutil.copy(_HERE / "site.css", folder / "docs")
    for path, text in pages().items():
        file = folder / "docs" / str(address(path))
        file.parent.mkdir(parents=True, exist_ok=True)
        # Dated pages would bury the others in the results of a search.
        front = "---\nsearch: {exclude: true}\n---\n\n" if path.startswith(DESIGN) else ""
        file.write_text(front + converted(path, text))
    if script:
        shutil.copy(script, folder / "docs/mermaid.min.js")
        shutil.copy(_HERE / "site.js", folder / "docs")
        with (folder / "mkdocs.yml").open("a") as configuration:
            configuration.write("\nextra_javascript: [mermaid.min.js, site.js]\n")


def install(kind: str, source: Path) -> Path:
    """Install pinned packages of MkDocs or Mermaid, once for each version of the file that pins them."""
    folder = cache.folder() / "site" / f"{kind}-{hashlib.sha256(source.read_bytes()).hexdigest()[:12]}"
    if (folder / "complete").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    if kind == "mkdocs":
        venv.create(folder, with_pip=True)
        _run([str(folder / "bin/pip"), "install", "--quiet", "--requirement", str(source)])
    else:
        folder.mkdir(parents=True)
        shutil.copy(source, folder)
        _run(["npm", "install", "--silent", "--ignore-scripts", "--no-package-lock"], folder)
    (folder / "complete").touch()
    return folder


def mermaid() -> Path:
    """Return the folder with Mermaid's modules."""
    return install("mermaid", _HERE / "package.json")


def faults(modules: Path, texts: dict[str, str]) -> list[str]:
    """Return the diagrams of pages that Mermaid cannot parse, with its messages."""
    found = {
        f"{path}, diagram {number}": text
        for path, page in texts.items()
        for number, text in enumerate(diagrams(page), 1)
    }
    command = ["node", str(_HERE / "diagrams.mjs")]
    done = subprocess.run(command, cwd=modules, input=json.dumps(found), stdout=subprocess.PIPE, text=True, check=True)
    return [f"{name}: {message}" for name, message in json.loads(done.stdout).items()]


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="hack/site", description=__doc__)
    parser.add_argument("--serve", action="store_true", help="serve the site on this machine until Ctrl-C")
    parser.add_argument("--folder", type=Path, default=REPOSITORY / "build/site", help="where to write it")
    given = parser.parse_args(words)
    modules = mermaid() if shutil.which("npm") else None
    if modules is None:
        print("hack/site: diagrams are not checked, since npm is missing: install Node.js", file=sys.stderr)
    elif wrong := faults(modules, pages()):
        print(*wrong, sep="\n", file=sys.stderr)
        return 1
    folder = given.folder.resolve()
    stage(folder, modules / "node_modules/mermaid/dist/mermaid.min.js" if modules else None)
    mkdocs = str(install("mkdocs", _HERE / "requirements.txt") / "bin/mkdocs")
    _run([mkdocs, "build", "--strict", "--quiet"], folder)
    print(f"hack/site: wrote {folder / 'site/index.html'}", file=sys.stderr)
    if given.serve:
        _run([mkdocs, "serve"], folder)
    return 0


def _run(command: list[str], folder: Path | None = None) -> None:
    # Material announces its end of life in every build.
    done = subprocess.run(command, cwd=folder, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    if done.returncode:
        raise SystemExit(f"hack/site: {Path(command[0]).name} has failed, see its message")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
