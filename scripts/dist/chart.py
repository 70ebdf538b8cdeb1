"""The Helm chart of deploy/helm with the version of the release, as `helm package` would pack it."""

import re

from archives import Entry, gz, tar
from release import ROOT


def write(release):
    entries = []
    for path in sorted((ROOT / "deploy/helm").rglob("*")):
        if path.is_file():
            contents = path.read_bytes()
            if path.name == "Chart.yaml":
                contents = re.sub(rb"(?m)^(version|appVersion): .*$", rb"\1: " + release.version.encode(), contents)
            entries.append(Entry(f"forgerun/{path.relative_to(ROOT / 'deploy/helm')}", contents))
    # The npm package has the name that helm would give it.
    release.write(f"forgerun-chart-{release.version}.tgz", gz(tar(entries, release.epoch)))
