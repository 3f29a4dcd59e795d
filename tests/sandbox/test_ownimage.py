"""The tree of the Flotilla image runs without any file of the machine."""

import marshal
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from hack.lab.sandbox import ownimage
from hack.lab.sandbox.objects import REPOSITORY
from tests.sandbox.ownbase import shared

EXPRESSION = """
from agent.ranking.placing.celexpr import compile_expression
print("It is", compile_expression('quantity("1").isLessThan(quantity("2"))').matches(b"{}", {}))
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tree made by `write_tree`; files of the common base are hard links, since other images share them."""
    folder = tmp_path_factory.mktemp("image") / "tree"
    shutil.copytree(shared(tmp_path_factory), folder, symlinks=True, copy_function=os.link)
    return ownimage.write_own(folder, REPOSITORY)


def test_packages_for_development_stay_outside() -> None:
    names = ownimage.distributions()
    assert {"aiohttp", "cryptography", "msgspec", "typer"} <= set(names)
    assert not {"pytest", "mypy", "ruff", "hypothesis", "pip", "flotilla"} & set(names)


@pytest.mark.full("Builds the image that only real nodes run.")
def test_nothing_of_this_machine_is_in_it(tree: Path) -> None:
    links = [path for path in tree.rglob("*") if path.is_symlink()]
    assert [link for link in links if not link.exists() or link.readlink().is_absolute()] == []
    assert str(REPOSITORY) not in "".join(path.read_text() for path in (tree / "usr/local/bin").glob("flotilla"))


@pytest.mark.full("Builds the image that only real nodes run.")
def test_what_processes_load_is_compiled_whatever_the_times_of_files_are(tree: Path) -> None:
    (file,) = tree.rglob("agent/__pycache__/app.*.pyc")
    content = file.read_bytes()
    assert int.from_bytes(content[4:8], "little") == 1, "made from a hash that nobody checks"
    assert marshal.loads(content[16:]).co_filename == f"/{file.parents[1].relative_to(tree)}/app.py"


@pytest.mark.full("Builds the image that only real nodes run.")
def test_another_checkout_in_the_same_tree_is_what_it_would_be_in_one_of_its_own(tree: Path, tmp_path: Path) -> None:
    def files() -> dict[str, bytes]:
        return {str(path.relative_to(tree)): path.read_bytes() for path in tree.rglob("site-packages/agent/**/*.*")}

    before = files()
    for package in ("agent", "webhook"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "other.py").write_text("OTHER = 1\n")
    ownimage.write_own(tree, tmp_path)
    assert {Path(name).name.partition(".")[0] for name in files()} == {"other"}
    ownimage.write_own(tree, REPOSITORY)
    assert files() == before


@pytest.mark.full("Builds the image that only real nodes run.")
@pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root")
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (("python", "-m", "agent", "--help"), "--cluster-name"),
        (("python", "-m", "webhook", "--help"), "--certificates"),
        (("python", "-m", "agent.cli", "uninstall", "--help"), "--policy"),
        (("flotilla", "--help"), "uninstall"),
        (("python", "-c", EXPRESSION), "It is True"),
        (("python", "-c", "import kubernetes_asyncio, ssl, socket, re2; print('all there')"), "all there"),
    ],
)
def test_everything_starts_in_it_as_the_users_number(tree: Path, command: tuple[str, ...], expected: str) -> None:
    userspec = f"--userspec={ownimage.USER}"
    done = subprocess.run(
        ["/usr/sbin/chroot", userspec, str(tree), *command],
        env=ownimage.ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert expected in done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root")
def test_a_program_brings_its_shared_libraries(tmp_path: Path) -> None:
    program = Path(shutil.which("nsenter") or "")
    image = ownimage.build_program(program, tmp_path / "image.tar", "flotilla.local/nsenter:1")
    with tarfile.open(image) as archive:
        (layer,) = (name for name in archive.getnames() if name.endswith(".tar"))
    tree = tmp_path / "tree"
    tree.mkdir()
    for file, folder in ((image, tmp_path), (tmp_path / layer, tree)):
        subprocess.run(["tar", "-xf", str(file), "-C", str(folder)], check=True)
    chroot = ["/usr/sbin/chroot", f"--userspec={ownimage.USER}", str(tree)]
    done = subprocess.run([*chroot, "nsenter", "--version"], env=ownimage.ENVIRONMENT, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert b"nsenter" in done.stdout


def test_the_dockerfile_says_the_same() -> None:
    text = (REPOSITORY / "Dockerfile").read_text()
    assert f"USER {ownimage.USER}\n" in text
    assert 'ENTRYPOINT ["python", "-m"]\nCMD ["agent"]\n' in text
    assert text.count(f"FROM python:{sys.version_info.major}.") == 2
    assert "--require-hashes --only-binary :all: -r image.txt" in text
    pins = (REPOSITORY / "hack/image.txt").read_text().splitlines()
    pinned = {line.partition("==")[0] for line in pins if "==" in line}
    assert set(ownimage.distributions()) <= pinned
