"""Images built from a directory tree."""

import hashlib
import json
import os
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from hack.lab.sandbox import SandboxError
from hack.lab.sandbox.realnode import images
from hack.lab.sandbox.realnode.images import Image, Start, build, build_all

NAME = "flotilla.local/thing:1"


def tree(folder: Path, order: tuple[str, ...] = ("b", "a")) -> Path:
    """Create a tree with files in this order, with this time and this owner."""
    folder.mkdir()
    (folder / "bin").mkdir(mode=0o755)
    for name in order:
        (folder / "bin" / name).write_text(f"I am {name}")
        (folder / "bin" / name).chmod(0o755)
    (folder / "bin" / "link").symlink_to("a")
    return folder


def test_the_same_tree_gives_the_same_file_byte_for_byte(tmp_path: Path) -> None:
    one = build(tree(tmp_path / "one"), tmp_path / "1.tar", NAME, Start(("/bin/a",)))
    other = tree(tmp_path / "other", ("a", "b"))
    os.utime(other / "bin" / "a", (1, 1))
    two = build(other, tmp_path / "2.tar", NAME, Start(("/bin/a",)))
    assert one.read_bytes() == two.read_bytes()


def test_another_content_mode_or_start_gives_another_image(tmp_path: Path) -> None:
    source = tree(tmp_path / "tree")

    def built(start: Start) -> str:
        return hashlib.sha256(build(source, tmp_path / "x.tar", NAME, start).read_bytes()).hexdigest()

    digests = [built(Start(("/bin/a",))), built(Start(("/bin/b",))), built(Start(("/bin/a",), ("x",)))]
    (source / "bin" / "a").chmod(0o700)
    digests.append(built(Start(("/bin/a",))))
    (source / "bin" / "a").write_text("changed")
    digests.append(built(Start(("/bin/a",))))
    assert len(set(digests)) == len(digests)


def test_an_image_says_what_it_starts_and_its_layer_is_the_tree(tmp_path: Path) -> None:
    start = Start(("/bin/a",), ("--x",), {"B": "2", "A": "1"}, "/work", "65534")
    file = build(tree(tmp_path / "tree"), tmp_path / "x.tar", NAME, start)
    with tarfile.open(file) as archive:
        (entry,) = json.load(archive.extractfile("manifest.json") or pytest.fail("no manifest"))
        config = json.load(archive.extractfile(entry["Config"]) or pytest.fail("no configuration"))
        layer = archive.extractfile(entry["Layers"][0]) or pytest.fail("no layer")
        content = layer.read()
        layer.seek(0)
        with tarfile.open(fileobj=layer) as members:
            listed = {member.name: member for member in members}
    assert entry["RepoTags"] == [NAME]
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(content).hexdigest()}"]
    assert config["config"] == {
        "Entrypoint": ["/bin/a"],
        "Cmd": ["--x"],
        "Env": ["A=1", "B=2"],
        "WorkingDir": "/work",
        "User": "65534",
    }
    assert list(listed) == ["bin", "bin/a", "bin/b", "bin/link"]
    assert listed["bin/link"].linkname == "a"
    assert listed["bin/a"].mode & 0o777 == 0o755
    assert {(member.uid, member.gid, member.uname, member.mtime) for member in listed.values()} == {(0, 0, "", 0)}
    assert images.names(file) == [NAME]


def test_images_that_lie_upon_the_same_tree_share_its_layer(tmp_path: Path) -> None:
    base, mine = tree(tmp_path / "base"), tree(tmp_path / "mine", ("c",))
    one = Image("flotilla.local/one:1", (base,), Start(("/bin/a",)))
    two = Image("flotilla.local/two:1", (base, mine), Start(("/bin/c",)))
    file = build_all([one, two, replace(two, name="flotilla.local/twin:1")], tmp_path / "x.tar")
    with tarfile.open(file) as archive:
        index = json.load(archive.extractfile("manifest.json") or pytest.fail("no manifest"))
        entries = {each["RepoTags"][0]: each for each in index}
        configs = {
            name: json.load(archive.extractfile(each["Config"]) or pytest.fail("no configuration"))
            for name, each in entries.items()
        }
        found = archive.getnames()
    layers = {name: [each.removesuffix(".tar") for each in entry["Layers"]] for name, entry in entries.items()}
    assert images.names(file) == [one.name, two.name, "flotilla.local/twin:1"]
    assert layers[two.name] == layers["flotilla.local/twin:1"]
    assert layers[two.name][:1] == layers[one.name] != layers[two.name][1:]
    for name, digests in layers.items():
        assert configs[name]["rootfs"]["diff_ids"] == [f"sha256:{digest}" for digest in digests]
        assert len(configs[name]["history"]) == len(digests)
    assert len(found) == len(set(found)) == 2 + 2 + 1, "two layers, two configurations and the index"


@pytest.mark.parametrize("name", ["thing", "thing:1", "local/thing:1", "flotilla.local/thing"])
def test_a_name_that_a_node_would_read_otherwise_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SandboxError, match="HOST/NAME:TAG"):
        build(tree(tmp_path / "tree"), tmp_path / "x.tar", name, Start())


def test_a_file_that_holds_no_images_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.tar"
    file.write_text("nothing")
    with pytest.raises(SandboxError, match="not a file of images"):
        images.names(file)
