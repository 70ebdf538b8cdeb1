"""The container image as an OCI archive, made without an engine.

`docker load`, `podman load` and `skopeo copy oci-archive:` read it. It holds the binary, the C library of the machine that builds it, the
certificates of authorities, and nothing else: no shell, no package manager. It runs as 65532 and needs no writable root.
"""

import hashlib
import json
import re
import subprocess
from datetime import datetime, timezone
from pathlib import Path

from archives import Entry, folder, gz, tar
from release import SUMMARY

USER = 65532
DATA = "/data"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
BINARY = "usr/local/bin/forgerun"
CONFIG = {
    "User": f"{USER}:{USER}",
    "Entrypoint": [f"/{BINARY}"],
    "Cmd": ["serve", "--listen", "0.0.0.0:8080", "--data", DATA],
    "Env": ["PATH=/usr/local/bin"],
    "ExposedPorts": {"8080/tcp": {}},
    "Volumes": {DATA: {}},
    "StopSignal": "SIGTERM",
    "WorkingDir": "/",
    # OCI does not know it; Docker and Podman read it from here. Times are in nanoseconds.
    "Healthcheck": {
        "Test": ["CMD", f"/{BINARY}", "health"],
        "Interval": 10_000_000_000,
        "Timeout": 5_000_000_000,
        "StartPeriod": 60_000_000_000,
        "Retries": 3,
    },
}


def libraries(binary):
    """The files that the dynamic linker needs to start the binary: the linker itself and libraries, by the path where it looks."""
    listed = subprocess.check_output(["readelf", "--wide", "--program-headers", binary], text=True)
    interpreter = re.search(r"interpreter: (\S+?)\]", listed)
    if not interpreter:
        return {}
    found = {interpreter[1]: Path(interpreter[1]).resolve()}
    for line in subprocess.check_output(["ldd", binary], text=True).splitlines():
        if "not found" in line:
            raise SystemExit(f"{binary}: {line.strip()}")
        match = re.search(r"=> (\S+)", line)
        if match:
            found[match[1]] = Path(match[1]).resolve()
    return found


def root(release):
    """The file system. /data belongs to the user before it becomes a volume."""
    files = [
        Entry("etc/passwd", f"root:x:0:0:root:/:/sbin/nologin\nforgerun:x:{USER}:{USER}:forgerun:{DATA}:/sbin/nologin\n".encode()),
        Entry("etc/group", f"root:x:0:\nforgerun:x:{USER}:\n".encode()),
        Entry("etc/nsswitch.conf", b"hosts: files dns\n"),
        Entry("etc/ssl/certs/ca-certificates.crt", CERTIFICATES.read_bytes()),
        Entry("usr/share/doc/forgerun/LICENSE", release.text("LICENSE")),
        Entry("usr/share/doc/forgerun/THIRD-PARTY.gz", gz(release.third_parties)),
        Entry(BINARY, release.program.contents, 0o755),
    ]
    for path, source in sorted(libraries(release.binary).items()):
        files.append(Entry(path.lstrip("/"), source.read_bytes(), 0o755))
    folders = {str(parent) for entry in files for parent in Path(entry.name).parents if str(parent) != "."}
    entries = [folder(name) for name in sorted(folders | {"dev", "proc", "sys"})]
    entries += [folder("tmp", 0o1777), folder(DATA.lstrip("/"), 0o700, USER)]
    return sorted(entries + files, key=lambda entry: entry.name)


def write(release):
    layer = tar(root(release), release.epoch)
    packed = gz(layer)
    created = datetime.fromtimestamp(release.epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    labels = {
        "org.opencontainers.image.title": "forgerun",
        "org.opencontainers.image.description": SUMMARY,
        "org.opencontainers.image.version": release.version,
        "org.opencontainers.image.licenses": "Apache-2.0",
    }
    blobs = {}

    def blob(data, media_type):
        digest = hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}

    config = blob(as_json({
        "created": created,
        "architecture": release.platform.oci,
        "os": "linux",
        "config": CONFIG | {"Labels": labels},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        "history": [{"created": created, "created_by": "scripts/dist/image.py"}],
    }), "application/vnd.oci.image.config.v1+json")
    only = blob(packed, "application/vnd.oci.image.layer.v1.tar+gzip")
    manifest = blob(as_json({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config,
        "layers": [only],
        "annotations": labels,
    }), "application/vnd.oci.image.manifest.v1+json")
    tag = f"forgerun:{release.version}"
    named = {"org.opencontainers.image.ref.name": release.version, "io.containerd.image.name": f"docker.io/library/{tag}"}
    manifest |= {"platform": {"architecture": release.platform.oci, "os": "linux"}, "annotations": named}
    path = lambda of: f"blobs/sha256/{of['digest'][7:]}"
    files = [
        Entry("oci-layout", as_json({"imageLayoutVersion": "1.0.0"})),
        Entry("index.json", as_json({"schemaVersion": 2, "manifests": [manifest]})),
        # What engines read that are older than OCI archives.
        Entry("manifest.json", as_json([{"Config": path(config), "RepoTags": [tag], "Layers": [path(only)]}])),
        folder("blobs"),
        folder("blobs/sha256"),
    ]
    files += [Entry(f"blobs/sha256/{digest}", data) for digest, data in sorted(blobs.items())]
    release.write(f"forgerun-{release.version}-linux-{release.platform.oci}.oci.tar", tar(files, release.epoch))


def as_json(value):
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
