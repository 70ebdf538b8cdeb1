"""Archives whose bytes depend on nothing but their contents: entries in the order given, one time, no names of the builder."""

import gzip
import io
import os
import tarfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

# Zip cannot say anything earlier.
ZIP_EPOCH = 315532800


@dataclass(frozen=True)
class Entry:
    """A file, or a folder if there are no contents, or a symbolic link if there is a target."""

    name: str
    contents: bytes | None = None
    mode: int = 0o644
    owner: int = 0
    link: str | None = None


def folder(name, mode=0o755, owner=0):
    return Entry(name, None, mode, owner)


def tar(entries, epoch):
    """The bytes of a tar archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for entry in entries:
            info = tarfile.TarInfo(entry.name)
            info.mtime, info.mode, info.uid, info.gid = epoch, entry.mode, entry.owner, entry.owner
            if entry.link is not None:
                info.type, info.linkname = tarfile.SYMTYPE, entry.link
            elif entry.contents is None:
                info.type = tarfile.DIRTYPE
            else:
                info.size = len(entry.contents)
            archive.addfile(info, io.BytesIO(entry.contents) if entry.contents is not None else None)
    return buffer.getvalue()


def gz(data):
    """Compressed, without a time and a name in the head."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", fileobj=buffer, mode="wb", compresslevel=6, mtime=0) as packed:
        packed.write(data)
    return buffer.getvalue()


def zip_file(path, entries, epoch):
    """Writes a zip archive, as wheels are."""
    when = time.gmtime(max(epoch, ZIP_EPOCH))[:6]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for entry in entries:
            info = zipfile.ZipInfo(entry.name, when)
            info.create_system = 3
            info.external_attr = (0o100000 | entry.mode) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, entry.contents)


def write_tree(root: Path, entries, epoch):
    """Writes entries as files below a folder, for programs that pack folders."""
    for entry in entries:
        path = root / entry.name
        if entry.contents is None:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(entry.contents)
        path.chmod(entry.mode)
    for path in [*root.rglob("*"), root]:
        if path.is_dir() and not any(path == root / entry.name for entry in entries):
            path.chmod(0o755)
        os.utime(path, (epoch, epoch))
