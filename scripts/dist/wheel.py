"""The Python SDK as a source archive, and as a wheel for one platform with the binary as the command `forgerun`."""

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from archives import Entry, zip_file
from release import ROOT

BUILDERS = ["build==1.3.0", "hatchling==1.27.0"]


def builders(tools: Path):
    """A Python that has the programs that build packages."""
    python, noted = tools / "packaging/bin/python", tools / "packaging/builders"
    if not noted.exists() or noted.read_text() != " ".join(BUILDERS):
        subprocess.run([sys.executable, "-m", "venv", tools / "packaging"], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *BUILDERS], check=True)
        noted.write_text(" ".join(BUILDERS))
    return python


def staged(folder: Path, version):
    """A copy of the SDK with the version of the release."""
    copy = folder / "python"
    ignored = shutil.ignore_patterns("__pycache__", ".*", "dist", "build", "*.egg-info")
    shutil.copytree(ROOT / "sdk/python", copy, ignore=ignored)
    shutil.copy(ROOT / "LICENSE", copy / "LICENSE")
    for file, name in [("pyproject.toml", "version"), ("src/forgerun/_session.py", "VERSION")]:
        text, n = re.subn(rf'(?m)^{name} = ".*"$', f'{name} = "{version}"', (copy / file).read_text(), count=1)
        if n != 1:
            raise SystemExit(f"sdk/python/{file} has no {name} to replace")
        (copy / file).write_text(text)
    return copy


def write(release, tools):
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(release.epoch)}
    release.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        source, built = staged(Path(temporary), release.version), Path(temporary) / "built"
        command = [builders(tools), "-m", "build", "--no-isolation", "--outdir", built, source]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"the Python package cannot be built:\n{done.stdout}{done.stderr}")
        (sdist,), (pure,) = built.glob("*.tar.gz"), built.glob("*.whl")
        shutil.copyfile(sdist, release.out / sdist.name)
        with_binary(pure, release)


def with_binary(pure: Path, release):
    """Turns the wheel for any platform into one for this platform."""
    with zipfile.ZipFile(pure) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    top = f"forgerun-{release.version}"
    tag = f"py3-none-{release.platform.wheel}"
    head = files[f"{top}.dist-info/WHEEL"].decode()
    head = re.sub(r"(?m)^Root-Is-Purelib: .*$", "Root-Is-Purelib: false", head)
    files[f"{top}.dist-info/WHEEL"] = re.sub(r"(?m)^Tag: .*$", f"Tag: {tag}", head).encode()
    files[f"{top}.dist-info/licenses/THIRD-PARTY.txt"] = release.third_parties
    script = f"{top}.data/scripts/forgerun"
    files[script] = release.program.contents
    record = f"{top}.dist-info/RECORD"
    del files[record]
    lines = [f"{name},sha256={digest(data)},{len(data)}\n" for name, data in sorted(files.items())]
    files[record] = "".join([*lines, f"{record},,\n"]).encode()
    mode = lambda name: 0o755 if name == script else 0o644
    # The record comes last, as installers like it.
    entries = [Entry(name, data, mode(name)) for name, data in files.items()]
    zip_file(release.out / f"{top}-{tag}.whl", entries, release.epoch)


def digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
