"""The package for Debian and Ubuntu, built by dpkg-deb."""

import hashlib
import os
import re
import subprocess
import tempfile
from pathlib import Path

from archives import Entry, folder, gz, write_tree
from release import ROOT, SUMMARY

CONTROL = """\
Package: forgerun
Version: {version}
Architecture: {architecture}
Maintainer: The ForgeRun authors
Installed-Size: {size}
Depends: {needs}
Recommends: ca-certificates
Section: net
Priority: optional
Description: {summary}
 One binary is server, worker and command line. Jobs are kept in an embedded
 database under /var/lib/forgerun, or in PostgreSQL for several nodes.
"""

COPYRIGHT = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: ForgeRun

Files: *
Copyright: The ForgeRun authors
License: Apache-2.0
 On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.
 Parts of others are named in THIRD-PARTY.gz, with their licences.
"""

# What the service of a package does differently from one that was installed by hand.
UNIT = [
    ("ExecStart=/usr/local/bin/forgerun serve --data %S/forgerun",
     "ExecStart=/usr/bin/forgerun serve --config /etc/forgerun/forgerun.toml"),
    ("DynamicUser=yes", "User=forgerun\nGroup=forgerun"),
]


def unit():
    """The unit of deploy/forgerun.service with the paths and the user of the package, without the advice for an installation by hand."""
    text = (ROOT / "deploy/forgerun.service").read_text()
    for old, new in UNIT:
        if text.count(old) != 1:
            raise SystemExit(f"deploy/forgerun.service does not say {old!r} once")
        text = text.replace(old, new)
    return text[text.index("[Unit]"):].encode()


def needs(binary):
    """What the binary and the scripts of the package cannot do without. A binary of scripts/dist/compile has OpenSSL inside."""
    listed = subprocess.check_output(["readelf", "--wide", "--dynamic", "--version-info", binary], text=True)
    versions = set(re.findall(r"GLIBC_(2\.[0-9.]+)", listed))
    libc = max(versions, key=lambda version: [int(part) for part in version.split(".")])
    openssl = ["libssl3"] if "libssl.so.3" in listed else []
    return ", ".join(["adduser", "init-system-helpers", f"libc6 (>= {libc})", *openssl])


def write(release):
    architecture = release.platform.debian
    files = [
        Entry("usr/bin/forgerun", release.program.contents, 0o755),
        Entry("usr/lib/systemd/system/forgerun.service", unit()),
        Entry("etc/forgerun/forgerun.toml", release.text("deploy/deb/forgerun.toml")),
        Entry("usr/share/bash-completion/completions/forgerun", release.completions["bash"]),
        Entry("usr/share/zsh/vendor-completions/_forgerun", release.completions["zsh"]),
        Entry("usr/share/fish/vendor_completions.d/forgerun.fish", release.completions["fish"]),
        Entry("usr/share/doc/forgerun/copyright", COPYRIGHT.encode()),
        Entry("usr/share/doc/forgerun/THIRD-PARTY.gz", gz(release.third_parties)),
        Entry("usr/share/doc/forgerun/changelog.gz", gz(release.text("CHANGELOG.md"))),
    ]
    files += [Entry(f"usr/share/man/man1/{name}", page) for name, page in release.compressed_manual().items()]
    sums = "".join(
        f"{hashlib.md5(entry.contents).hexdigest()}  {entry.name}\n" for entry in files if not entry.name.startswith("etc/")
    )
    control = CONTROL.format(
        version=release.version,
        architecture=architecture,
        size=sum(len(entry.contents) for entry in files) // 1024,
        needs=needs(release.binary),
        summary=SUMMARY,
    )
    files += [
        folder("DEBIAN"),
        Entry("DEBIAN/control", control.encode()),
        Entry("DEBIAN/conffiles", b"/etc/forgerun/forgerun.toml\n"),
        Entry("DEBIAN/md5sums", sums.encode()),
    ]
    files += [Entry(f"DEBIAN/{name}", release.text(f"deploy/deb/{name}"), 0o755) for name in ["postinst", "prerm", "postrm"]]
    release.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary) / "root"
        root.mkdir()
        write_tree(root, files, release.epoch)
        package = release.out / f"forgerun_{release.version}_{architecture}.deb"
        environment = os.environ | {"SOURCE_DATE_EPOCH": str(release.epoch)}
        command = ["dpkg-deb", "--root-owner-group", "--threads-max=1", "-Zxz", "--build", root, package]
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
