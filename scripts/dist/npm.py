"""The TypeScript SDK with the command `forgerun`, and a package per platform that holds the binary, which npm installs where it fits."""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from archives import Entry, gz, tar
from release import PLATFORMS, ROOT

# The time that npm itself gives the files of a package.
EPOCH = 499162500


def write(release):
    release.out.mkdir(parents=True, exist_ok=True)
    if not release.platform.npm:
        return
    platform_package(release)
    main_package(release)


def platform_package(release):
    system, cpu = release.platform.npm.split("-")
    manifest = {
        "name": f"@forgerun/{release.platform.npm}",
        "version": release.version,
        "description": f"The binary of ForgeRun for {release.platform.npm}; install `forgerun` instead",
        "license": "Apache-2.0",
        "os": [system],
        "cpu": [cpu],
    }
    if system == "linux":
        manifest["libc"] = ["glibc"]
    entries = [
        Entry("package/package.json", pretty(manifest)),
        Entry("package/LICENSE", release.text("LICENSE")),
        Entry("package/THIRD-PARTY.txt", release.third_parties),
        Entry("package/bin/forgerun", release.program.contents, 0o755),
    ]
    release.write(f"forgerun-{release.platform.npm}-{release.version}.tgz", gz(tar(entries, EPOCH)))


def main_package(release):
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary) / "typescript"
        shutil.copytree(ROOT / "sdk/typescript", copy, ignore=shutil.ignore_patterns("node_modules", "dist", ".*"))
        environment = os.environ | {"SOURCE_DATE_EPOCH": str(release.epoch)}
        run = lambda *command: subprocess.run(command, cwd=copy, env=environment, check=True, stdout=subprocess.DEVNULL)
        run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
        run("npm", "run", "build", "--loglevel=error")
        manifest = json.loads((copy / "package.json").read_text())
        manifest["version"] = release.version
        manifest["bin"] = {"forgerun": "bin/forgerun.js"}
        manifest["files"] = [*manifest["files"], "bin"]
        manifest["optionalDependencies"] = {f"@forgerun/{platform.npm}": release.version for platform in PLATFORMS.values() if platform.npm}
        for unused in ["devDependencies", "scripts"]:
            manifest.pop(unused, None)
        (copy / "package.json").write_bytes(pretty(manifest))
        (copy / "bin").mkdir(exist_ok=True)
        shutil.copyfile(ROOT / "scripts/dist/forgerun.js", copy / "bin/forgerun.js")
        (copy / "bin/forgerun.js").chmod(0o755)
        shutil.copy(ROOT / "LICENSE", copy / "LICENSE")
        run("npm", "pack", "--ignore-scripts", "--loglevel=error", f"--pack-destination={release.out.resolve()}")


def pretty(value):
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
