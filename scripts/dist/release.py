"""What the packages of one release have in common: version, time, binary, pages, licences."""

import json
import os
import subprocess
import tempfile
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from archives import Entry, gz

ROOT = Path(__file__).resolve().parents[2]

SUMMARY = "Job server: accepts work over HTTP, runs it in the background, survives crashes"


def version():
    """The version of everything we ship; it is written in Cargo.toml alone."""
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def epoch():
    """The time that all files get: that of the commit, unless SOURCE_DATE_EPOCH is set."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    return int(given or subprocess.check_output(["git", "log", "-1", "--format=%ct"], cwd=ROOT, text=True))


@dataclass(frozen=True)
class Platform:
    """How each packaging system calls a target."""

    target: str
    debian: str | None
    wheel: str
    npm: str | None
    oci: str | None


PLATFORMS = {
    platform.target: platform
    for platform in [
        Platform("x86_64-unknown-linux-gnu", "amd64", "manylinux_2_28_x86_64", "linux-x64", "amd64"),
        Platform("aarch64-unknown-linux-gnu", "arm64", "manylinux_2_28_aarch64", "linux-arm64", "arm64"),
        # Static, for systems without glibc or with an old one.
        Platform("x86_64-unknown-linux-musl", None, "musllinux_1_2_x86_64", None, None),
        Platform("aarch64-unknown-linux-musl", None, "musllinux_1_2_aarch64", None, None),
        Platform("x86_64-apple-darwin", None, "macosx_11_0_x86_64", "darwin-x64", None),
        Platform("aarch64-apple-darwin", None, "macosx_11_0_arm64", "darwin-arm64", None),
    ]
}


@dataclass(frozen=True)
class Release:
    binary: Path
    platform: Platform
    out: Path
    version: str
    epoch: int

    @cached_property
    def program(self):
        return Entry("forgerun", self.binary.read_bytes(), 0o755)

    @cached_property
    def manual(self):
        """The manual pages, by file name."""
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([self.binary, "man", "--dir", folder], check=True)
            return {page.name: page.read_bytes() for page in sorted(Path(folder).iterdir())}

    @cached_property
    def completions(self):
        """The completions, by shell."""
        run = lambda shell: subprocess.check_output([self.binary, "completions", shell])
        return {shell: run(shell) for shell in ["bash", "zsh", "fish"]}

    @cached_property
    def packages(self):
        """The crates that are compiled into the binary, as `cargo metadata` describes them, and their dependencies by id."""
        command = ["cargo", "metadata", "--format-version", "1", "--locked", "--features", "forgerun-server/full",
                   "--filter-platform", self.platform.target]
        found = json.loads(subprocess.check_output(command, cwd=ROOT))
        packages = {package["id"]: package for package in found["packages"]}
        edges = {}
        for node in found["resolve"]["nodes"]:
            is_normal = lambda dep: any(kind["kind"] is None for kind in dep["dep_kinds"])
            edges[node["id"]] = sorted(dep["pkg"] for dep in node["deps"] if is_normal(dep))
        root = next(package["id"] for package in packages.values() if package["name"] == "forgerun-server")
        reached, open_ = {}, [root]
        while open_:
            package = open_.pop()
            if package not in reached:
                reached[package] = edges[package]
                open_ += edges[package]
        return {id: (packages[id], reached[id]) for id in sorted(reached)}

    @cached_property
    def third_parties(self):
        """The licences of all that is compiled in: crates by name, then each text once."""
        lines, texts = ["Software of others in this program, and its licences.", ""], {}
        for package, _ in self.packages.values():
            if package["source"] is None:
                continue
            lines.append(f"{package['name']} {package['version']}: {package['license'] or 'see its text below'}")
            home = Path(package["manifest_path"]).parent
            for file in sorted(home.iterdir()):
                if file.is_file() and file.name.upper().startswith(("LICENSE", "LICENCE", "COPYING", "NOTICE")):
                    text = file.read_text(errors="replace").strip()
                    texts.setdefault(text, []).append(f"{package['name']} {package['version']}")
        lines.append("OpenSSL: Apache-2.0, https://www.openssl.org/source/license.html")
        for text, users in texts.items():
            lines += ["", "=" * 80, ", ".join(users), "", text]
        return ("\n".join(lines) + "\n").encode()

    def text(self, path):
        return (ROOT / path).read_bytes()

    def write(self, name, contents):
        self.out.mkdir(parents=True, exist_ok=True)
        (self.out / name).write_bytes(contents)

    def compressed_manual(self):
        return {f"{name}.gz": gz(page) for name, page in self.manual.items()}
